"""What a cluster holds: topics with records, offsets, consumers, transactions."""
