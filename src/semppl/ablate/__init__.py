"""The paper's analysis tables by name, on the data at hand."""
