"""The lag report."""
