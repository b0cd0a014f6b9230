"""Pre-training: one step on one page, and what surrounds it."""
