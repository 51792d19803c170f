"""Thin mains: arguments, read, transform, write, a JSON summary."""
