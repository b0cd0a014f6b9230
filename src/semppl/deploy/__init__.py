"""A trained model outside of its run: written, read, asked."""
