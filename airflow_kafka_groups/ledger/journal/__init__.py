"""The journal of deletions: what was about to be deleted and what became of it, durable before and after each request.

In: intents and outcomes of deletion runs (``journal``). Out: a ``DeletionHistory`` that every later decision reads
(``history``): an intent without an outcome counts as deleted. One journal for each Kafka cluster, whatever folders or
connections lead to it; entries are created exclusively, chained by SHA-256, and never changed (``entries``).
"""
