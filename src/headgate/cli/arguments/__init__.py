"""What commands are given: a control store, folders and queries in it, instants."""
