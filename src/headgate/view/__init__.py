"""What people are told of a control store: pure values and words, with no web library."""
