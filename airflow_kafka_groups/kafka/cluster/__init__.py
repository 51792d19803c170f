"""Which broker, and a connection to it: bootstrap, broker ids, group-to-coordinator routing."""
