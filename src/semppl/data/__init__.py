"""Images with few labels, and the order in which training sees them."""
