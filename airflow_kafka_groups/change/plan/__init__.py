"""Deletion plans: which groups to delete and why, fixed by a digest.

In: a snapshot, the verdicts about it, and a ``PlanPolicy``. Out: a ``DeletionPlan``, written once.
``make_plan`` decides, ``deletion_plan`` stores and checks, ``policy`` bounds, ``verdicts`` reads the job's output.
"""
