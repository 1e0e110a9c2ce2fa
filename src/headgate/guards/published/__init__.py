"""LAS as published: the operator's and the load shedder's side (las-2020)."""
