"""The whole journey on the user's images, from a folder and a few labels to a result."""
