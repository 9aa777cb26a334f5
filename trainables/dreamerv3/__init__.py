"""DreamerV3: learn a model of the world, and act by what is learned in its dreams."""
