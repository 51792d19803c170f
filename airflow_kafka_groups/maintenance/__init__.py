"""Maintenance of groups: snapshot, plan, backup, deletion, restore, report. Imports no Airflow.

One folder for each noun; ``storage`` (paths and files), ``protocols`` (what is needed of an ``AdminClient``),
``patterns`` (group filters), ``fingerprint``, ``checks`` and ``file_pruning`` serve them all.
"""
