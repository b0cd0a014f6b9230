"""Checkpoints that DeepMind released with the paper, read without running anything that is in them."""
