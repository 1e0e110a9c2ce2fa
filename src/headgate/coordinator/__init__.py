"""HTTP services: the coordinator of many queries."""
