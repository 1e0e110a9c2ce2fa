"""How the rows in front of a gate are made: noted when it is built, followed again by a backfill."""
