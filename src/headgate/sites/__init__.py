"""What sites and their coordinator say to each other and remember (themis-2016, section 6)."""
