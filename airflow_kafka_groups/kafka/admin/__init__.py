"""The batching core: one request for many groups, an answer for each, fallback per broker (KIP-699, 709, 347)."""
