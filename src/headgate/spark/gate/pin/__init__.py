"""What is decided when a batch begins: its size, the plan of such a batch, and the pin of it."""
