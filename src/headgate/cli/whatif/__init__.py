"""`headgate whatif`: what it is given, what it answers, and the picture."""
