"""The figures of join-2007."""
