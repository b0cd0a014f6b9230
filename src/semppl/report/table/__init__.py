"""Results of many runs as one Markdown page, for a document and for whoever would repeat them."""
