"""Read batches again: the shed rows, and counts that nobody witnessed."""
