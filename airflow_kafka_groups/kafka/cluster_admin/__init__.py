"""Ordinary admin calls (broker configs, topics) through confluent-kafka, beside the batching core.

In: a ``ClientConfig``. Out: the brokers' offsets retention, topic ids and records, each with its error where a
broker did not answer. ``ClusterAdmin`` is the only door to confluent-kafka; what needs batching is in ``admin``.
"""
