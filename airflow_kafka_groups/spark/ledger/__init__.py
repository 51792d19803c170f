"""Read what the core wrote: snapshots with their manifests, and deletion plans."""
