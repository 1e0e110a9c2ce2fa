"""Shedding by group: what it saves, what it costs in accuracy."""
