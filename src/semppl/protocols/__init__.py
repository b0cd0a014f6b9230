"""The verb `evaluate`: protocols that turn a run into numbers, and what they work with."""
