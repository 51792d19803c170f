"""The log of commits, ``__consumer_offsets``: scanned by Spark, and tables of its content."""
