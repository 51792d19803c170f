"""Changes of committed offsets: restore a backup, reset, alter, or test a restore.

In: a backup (``from_backup``, ``drill``) or a target (``reset``). Out: one ``ChangeResult`` per group.
``commit_changes`` applies every change, and only to groups without members that have not moved since it was proposed.
"""
