"""Thin main programs: arguments, read, transform, write, a JSON summary."""
