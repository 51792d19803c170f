"""The log of commits, ``__consumer_offsets``."""
