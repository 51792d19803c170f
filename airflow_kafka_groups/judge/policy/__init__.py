"""The policy of a site as a reviewed file: which rule decides about a group, and what the rule demands.

In: a YAML file (``policy_file``), checked by its schema (``schema``) and its lint (``lint``). Out: ordered ``rules``,
of which the first that matches a group decides, the groups' ``owners``, and their ``families``.
"""
