"""Demonstrations that reproduce experiments: a federation, the queries of Table 1, guarded traces."""
