"""One gate, guard, join or result in one running query: reports in, plans and records out. No Spark."""
