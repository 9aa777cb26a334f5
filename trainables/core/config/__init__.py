"""Settings, and the configs that hold them."""
