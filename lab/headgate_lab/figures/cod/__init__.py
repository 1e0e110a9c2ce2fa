"""The figures of cod-2018."""
