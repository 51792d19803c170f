"""Decode ``__consumer_offsets`` itself, and make tables of it."""
