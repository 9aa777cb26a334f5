"""Self-play: learners, their frozen copies, who plays whom, and how strong each one is."""
