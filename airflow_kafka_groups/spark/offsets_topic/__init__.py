"""Decoding of ``__consumer_offsets``, and tables of its content."""
