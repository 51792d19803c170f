"""Maintenance of groups: snapshot, plan, backup, deletion, restore, report. Imports no Airflow.

One folder for each noun. Shared modules: ``storage`` and ``durable_files`` (paths and files), ``cluster_folders`` (the
folders of one cluster), ``protocols`` (the part of ``AdminClient`` that is used), ``patterns`` (group filters),
``fingerprint``, ``floors``, ``checks`` and ``shown``.
"""
