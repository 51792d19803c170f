"""The batching core: one request for many groups, answers per group, fallback per broker (KIP-699, KIP-709, KIP-347)."""
