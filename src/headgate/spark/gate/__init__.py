"""`hg.gate`: its frame, its plan source, what it measures, what it refuses."""
