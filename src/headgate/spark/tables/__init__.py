"""Delta and Iceberg tables as sources: what their offsets say, and a batch's rows read again."""
