"""What keeps a control store small for years, in threads of its own."""
