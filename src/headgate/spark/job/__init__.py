"""A job file as a streaming query: its frames, its start, what it does while it runs, its end."""
