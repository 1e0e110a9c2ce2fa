"""Rows that a guard or a join drops, set aside as files: written by tasks, listed by the driver."""
