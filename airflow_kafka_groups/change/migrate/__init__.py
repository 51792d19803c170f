"""The migration of committed offsets into another cluster, whose topics are mirrors with other offsets.

``plan`` is what is proposed, approved and applied; ``migrate`` is the verb. Positions come from ``observe.mirrors``.
"""
