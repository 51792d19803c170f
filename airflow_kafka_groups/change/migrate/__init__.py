"""The migration of committed offsets into another cluster, whose topics are mirrors with other offsets.

``translation`` decides where a position of the source is in the target, without any I/O; ``offset_translator`` reads
what it decides by; ``plan`` is what is proposed, approved and applied; ``migrate`` is the verb.
"""
