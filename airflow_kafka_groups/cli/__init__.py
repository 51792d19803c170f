"""The command line; nothing imports it.

``registry`` names the commands, each in a module of ``commands``; ``main`` parses the arguments and translates errors
into exit codes; ``options`` finds the cluster, the files, the groups and the policy that are meant; ``output`` writes
data to stdout, and messages and progress bars to stderr.
"""
