"""Brokers, topics and partitions: one module for each API."""
