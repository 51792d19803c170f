"""Run all checks and tests as lanes, side by side: ``python -m tests.lanes [lane …]`` (``make test``).

A lane is a list of commands that run one after the other (``lane``). ``project`` names this project's lanes,
``schedule`` decides which of them may run now, ``process`` runs one, and ``screen`` reads what pytest said in its log.
"""
