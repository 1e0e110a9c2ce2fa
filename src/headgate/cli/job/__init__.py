"""Commands of a job file: init writes one, run runs it."""
