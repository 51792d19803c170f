"""The snapshots of a cluster: which ones count, and their rows."""
