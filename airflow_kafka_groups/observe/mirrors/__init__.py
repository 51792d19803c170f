"""Mirrored topics: where a committed offset of one cluster is in another one."""
