"""Where a committed offset is in another cluster, whose topics are mirrors with other offsets.

``translation`` decides that without any I/O; ``offset_translator`` reads what it decides by; ``batches`` carries both
to Spark's tasks and back.
"""
