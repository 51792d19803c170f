"""The snapshots of clusters: which clusters, which snapshots count, and their rows."""
