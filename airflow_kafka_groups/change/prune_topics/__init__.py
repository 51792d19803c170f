"""Pruning topics: delete the committed offsets of topics that a live group has stopped reading.

In: snapshots with subscriptions. Out: a sealed plan, a backup, entries in the journal of deletions, and a result for
each topic of a group. ``abandoned_topics`` finds them, ``plan_topics`` applies the policy, ``prune_by_plan`` deletes.
docs/howto/prune-topics.md explains it to users.
"""
