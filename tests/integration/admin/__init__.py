"""The admin clients and what brokers do to them."""
