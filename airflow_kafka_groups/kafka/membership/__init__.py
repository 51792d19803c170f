"""Membership in Kafka groups: the Coordinator interface for Python, and a lease built on it."""
