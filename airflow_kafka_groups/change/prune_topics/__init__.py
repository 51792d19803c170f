"""Pruning topics: delete the committed offsets of topics that a live group has stopped reading.

In: snapshots with subscriptions. Out: a sealed plan, a backup, entries in the journal of deletions, and a result for
each topic of a group. ``judging`` finds abandoned topics, ``planning`` applies the policy, ``service`` deletes.
docs/howto/prune-topics.md explains it to users.
"""
