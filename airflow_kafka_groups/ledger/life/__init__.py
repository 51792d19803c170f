"""The signs of life of groups, and what snapshots show of them."""
