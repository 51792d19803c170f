"""What all tests share."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.lab.fixtures"]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")
