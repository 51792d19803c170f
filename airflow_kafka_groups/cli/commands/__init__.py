"""The commands. Of each, ``add_<verb>(parser)`` adds the arguments; ``<verb>(args, out)`` returns an ``ExitCode``."""
