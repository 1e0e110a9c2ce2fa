"""A gated pipeline as a TOML file: what it may say, and what is wrong with one; no Spark."""
