"""What Airflow discovers: valid by its own schemas, and true."""

import importlib
import json
import re
from importlib.resources import files
from pathlib import Path

from jsonschema import Draft7Validator

import airflow_kafka_groups
from airflow_kafka_groups.provider_info import get_provider_info

SECRET_WORDS = ("password", "private_key", "secret")


def test_it_is_valid_by_airflows_schemas() -> None:
    info = get_provider_info()
    runtime = json.loads((files("airflow") / "provider_info.schema.json").read_text())
    assert [e.message for e in Draft7Validator(runtime).iter_errors(info)] == []
    full = json.loads((files("airflow") / "provider.yaml.schema.json").read_text())
    whole = {"type": "object", **{k: v for k, v in full.items() if k in ("properties", "definitions", "$defs")}}
    assert [e.message for e in Draft7Validator(whole).iter_errors(info)] == []


def test_every_module_it_names_exists_and_none_is_left_out() -> None:
    info = get_provider_info()
    package = Path(airflow_kafka_groups.__file__).parent
    for kind in ("hooks", "operators", "sensors", "triggers"):
        named = {module for entry in info[kind] for module in entry["python-modules"]}
        for module in named:
            importlib.import_module(module)
        suffix = {"operators": "Operator", "sensors": "Sensor", "triggers": "Trigger", "hooks": "Hook"}[kind]
        public = re.compile(rf"^class [A-Z]\w*{suffix}\b", re.M)
        holding = {path.stem for path in (package / kind).glob("*.py") if public.search(path.read_text())}
        assert {module.rpartition(".")[2] for module in named} == holding - {"base"}
    (kind_,) = info["connection-types"]
    module, _, name = kind_["hook-class-name"].rpartition(".")
    hook = getattr(importlib.import_module(module), name)
    assert (hook.conn_type, hook.hook_name) == (kind_["connection-type"], kind_["hook-name"])


def test_the_form_can_be_saved_with_nothing_but_a_host() -> None:
    """Airflow's form asks for every field whose type is not null and that has no default; an empty one blocks Save."""
    (kind,) = get_provider_info()["connection-types"]
    for name, field in kind["conn-fields"].items():
        schema = field["schema"]
        assert "null" in schema["type"] or schema.get("default") not in (None, ""), name


def test_the_links_it_names_exist() -> None:
    for place in get_provider_info()["extra-links"]:
        module, _, name = place.rpartition(".")
        assert hasattr(importlib.import_module(module), name)


def test_secret_fields_have_names_that_airflow_masks() -> None:
    from airflow.sdk._shared.secrets_masker import should_hide_value_for_key

    (kind,) = get_provider_info()["connection-types"]
    for name in ("ssl_private_key", "ssl_key_password"):
        assert name in kind["conn-fields"]
        assert should_hide_value_for_key(name)  # type: ignore[no-untyped-call]  # Airflow's own
    hidden = {n for n, f in kind["conn-fields"].items() if f["schema"].get("format") == "password"}
    assert all(any(word in name for word in SECRET_WORDS) for name in hidden)
