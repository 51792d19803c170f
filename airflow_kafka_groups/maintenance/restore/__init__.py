"""Changes of committed offsets: restore a backup, reset, set, or rehearse a restore.

In: a backup (``from_backup``, ``drill``) or a target (``reset``). Out: one ``ChangeResult`` for each group.
``changes`` applies every change: only to groups without members that have not moved since it was proposed.
"""
