"""The command line. It uses hooks, maintenance and admin; nothing imports it.

``registry`` names the commands, each a module in ``commands``; ``main`` parses the arguments and translates errors into
exit codes; ``connection`` finds the cluster; ``output`` writes data to stdout, ``messages`` writes text for people and
progress bars to stderr.
"""
