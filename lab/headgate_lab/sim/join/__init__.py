"""A windowed stream join on a virtual CPU (join-2007, section 6)."""
