"""Stream joins: kernels, rules, and a join under overload."""
