"""What the laboratory adds to the `headgate` command."""
