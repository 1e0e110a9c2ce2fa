"""What was repaid of a gate's shed rows: who has which batches in hand, and what is done for good."""
