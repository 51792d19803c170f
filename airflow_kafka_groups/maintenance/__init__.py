"""Maintenance of groups: snapshot, plan, backup, deletion, restore, report. Imports no Airflow.

One folder for each noun. Shared modules: ``storage`` (paths and files), ``protocols`` (the part of ``AdminClient`` that
is used), ``patterns`` (group filters), ``fingerprint``, ``checks``, ``file_sets`` and ``file_pruning``.
"""
