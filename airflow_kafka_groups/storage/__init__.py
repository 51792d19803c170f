"""Folders on disks and object stores: files that are created once, their paths, formats, schemas and manifests.

``schemas``, ``formats``, ``paths`` and ``manifest`` are what Airflow and the Spark jobs agree on. No Airflow, no Spark.
"""
