"""What the Airflow side and the Spark jobs must agree on: ids, paths, file formats, columns, group types and verdicts.

The code of docs/formats.md. It imports the standard library only and ships in the Spark bundle, so that both sides read
one definition. Each side maps a ``ValueError`` of this package to an error of its own.
"""
