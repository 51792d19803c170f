"""Deletions: each group is read again right before it is deleted, and every doubt keeps it.

In: a plan and its backup (``delete_by_plan``), or group ids (``ad_hoc``). Out: a ``DeletionReport`` with
one outcome for each group, entries in the journal, and a ``Verification`` (``verify``). ``recheck`` decides about one
group.
"""
