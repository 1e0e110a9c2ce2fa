"""Concept-driven shedding (cod-2018): rows drawn by the groups of their own batch and window."""
