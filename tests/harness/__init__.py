"""What a run of the tests keeps an eye on: time limits, what Spark says, and memory."""
