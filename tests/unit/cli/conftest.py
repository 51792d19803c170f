from tests.unit.operators.conftest import admin, backed_up, leases, planned, site

__all__ = ["admin", "backed_up", "leases", "planned", "site"]
