"""Where a control store can be, and the five things that everything else asks of it."""
