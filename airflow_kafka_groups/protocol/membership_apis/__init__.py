"""The requests of a group member: one module for each API."""
