"""What a gate's call left for those who come later: its arguments, its shapes, its recipe."""
