"""Changes of committed offsets: restore a backup, reset, set, copy, commit, delete, or rehearse one.

Each is a request that proposes (``from_backup``, ``reset``, ``forget``), and ``change_offsets`` is the chain that all
go through. ``commit_changes`` writes only to groups without members that have not moved since the proposal.
"""
