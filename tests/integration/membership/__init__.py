"""The public group-membership API, on real brokers."""
