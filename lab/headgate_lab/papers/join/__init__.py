"""Join-2007 as published: the adaptations, indexes and rules, and the bound (pure code)."""
