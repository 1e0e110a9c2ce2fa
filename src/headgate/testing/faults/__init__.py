"""Faults on purpose: processes that are killed, stores and clocks that misbehave."""
