"""The reference of the connection form and of the section ``[kafka_groups]``, from what Airflow discovers."""

from typing import Any

from airflow_kafka_groups.provider_info import get_provider_info
from tests.reference.markdown import code, first_sentence, listing, page, table

_STANDARD = {
    "host": "`broker1:9092,broker2:9092`; required",
    "port": "the port of servers without one; 9092 if empty",
    "login": "for PLAIN and SCRAM; for OAUTHBEARER, the client's id",
    "password": "for PLAIN and SCRAM; for OAUTHBEARER, the client's secret",
}


def connection_page() -> str:
    info = get_provider_info()
    (connection,) = info["connection-types"]
    labels = connection["ui-field-behaviour"]["relabeling"]
    standard = [(f"`{name}`", label, _STANDARD[name]) for name, label in labels.items()]
    options = info["config"]["kafka_groups"]["options"]
    return page(
        "Connection fields and settings",
        f"Every field of a connection of the type `{connection['connection-type']}`. [Connect to a "
        "cluster](../howto/connection.md) explains how to fill in the form, and what the Test button reports.",
        "## Standard fields",
        table(("field", "in the form", "value"), standard),
        "## Extra fields",
        "Keys of the extra, as JSON. An unknown key is an error.",
        listing(_field(name, field) for name, field in connection["conn-fields"].items()),
        "## Airflow's configuration",
        "The section `[kafka_groups]`, or `AIRFLOW__KAFKA_GROUPS__` and the name in capitals. All but `report_tab` are "
        "[limits that no run can exceed](../howto/floors.md).",
        listing(
            [("`report_tab`", options["report_tab"]["type"], first_sentence(options["report_tab"]["description"]))]
        ),
        "The limits: " + ", ".join(f"`{name}`" for name in options if name != "report_tab") + ".",
    )


def _field(name: str, field: dict[str, Any]) -> tuple[str, ...]:
    schema = field["schema"]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = " or ".join(kind for kind in kinds if kind != "null")
    if "enum" in schema:
        kind = ", ".join(f"`{value}`" for value in schema["enum"])
    if "minimum" in schema:
        kind += f", {schema['minimum']} to {schema['maximum']}"
    return f"`{name}`", field["label"], kind, code(schema.get("default")), field["description"]
