"""What sites and coordinators say to each other, and how it travels."""
