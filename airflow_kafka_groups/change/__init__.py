"""Changes to groups: plan, approve, back up, recheck, delete, prune, restore, keep alive.

In: a plan. Out: the outcome of each group. Imports no Airflow; what is remembered is in ``ledger``.
"""
