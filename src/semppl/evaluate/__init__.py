"""What the representation is worth, beside honest baselines."""
