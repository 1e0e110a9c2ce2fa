"""Three sites, seven queries, one fair share: the demo of a federation on one machine."""
