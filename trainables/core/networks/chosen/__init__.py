"""Networks that a `model` asks for beside hidden layers: images, memories, a user's own."""
