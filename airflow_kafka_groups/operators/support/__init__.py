"""What several operators share: base classes, approval rules, the parts of a deletion, metrics. Not public."""
