"""Shedding in front of an expensive function: LAS as published (las-2020), and prices that beat it."""
