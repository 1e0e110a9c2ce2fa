"""Rows that a join leaves out where they alone would not fit: who decides, who draws, who learns."""
