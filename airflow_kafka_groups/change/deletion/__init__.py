"""Deletions: each group is read again right before it is deleted, and every doubt keeps it.

In: a ``DeletionPlan`` and its ``Backup`` (``planned``), or group ids (``ad_hoc``). Out: a ``DeletionReport`` with one
outcome for each group, audit records (``audit``) and a ``Verification`` (``verify``).
``recheck`` decides about one group; ``lease`` makes sure that one deletion runs on a cluster at a time.
"""
