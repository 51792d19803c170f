"""Readers of the core's files: snapshots with their manifests, and deletion plans."""
