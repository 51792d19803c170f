from tests.unit.operators.conftest import admin, leases

__all__ = ["admin", "leases"]
