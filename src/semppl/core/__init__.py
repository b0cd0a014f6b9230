"""Words everybody uses: labels, batches, randomness, the run directory, errors."""
