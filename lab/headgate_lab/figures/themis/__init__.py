"""The figures of themis-2016."""
