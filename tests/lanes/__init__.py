"""Run all checks and tests as lanes, side by side: ``python -m tests.lanes [lane …]`` (``make test``).

A lane is a list of commands that run one after the other (``lane``). ``project`` names this project's lanes,
``schedule`` decides which of them may run now, ``process`` runs one, ``recorder`` is the pytest plugin that writes down
every test's outcome and duration, ``results`` reads that, and ``screen`` prints progress and the closing summary.
Standard library only: it starts before there is a virtual environment.
"""
