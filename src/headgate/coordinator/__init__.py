"""The coordinator of many queries, as an HTTP service."""
