"""What reports say, and of whom."""
