from tests.unit.operators.conftest import admin

__all__ = ["admin"]
