"""Rows that a join takes in where not all fit: their scores, their chances, and what they stand for."""
