"""Questions to owners, and notices that cannot be sent."""
