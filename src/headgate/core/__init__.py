"""The values that everything else speaks in: plans, samples, budgets, settings."""
