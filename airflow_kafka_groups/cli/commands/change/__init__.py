"""The commands that change groups. Each is a dry run, unless ``--yes`` is given."""
