"""The records of ``__consumer_offsets``, decoded."""
