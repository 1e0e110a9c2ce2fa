"""Many gates, queries, exceptions and readers in one control store, and how their cost grows."""
