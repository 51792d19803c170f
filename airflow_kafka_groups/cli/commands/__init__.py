"""The commands. Each module has ``add_arguments(parser)`` and ``run(args, out)``, which returns an ``ExitCode``."""
