"""A Spark cluster on one machine: master, workers and drivers that share only an S3 server."""
