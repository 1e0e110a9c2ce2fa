"""One site (themis-2016, section 6): its queries, its decision, its exchange with coordinators."""
