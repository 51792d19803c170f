"""How a command finds its cluster: three ways, one parser, and no secret on the way."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.cli.options import Cluster, actor, add_storage_arguments, read_properties
from airflow_kafka_groups.cli.registry import ArgumentTarget
from airflow_kafka_groups.exceptions import ConfigurationError

SECRET = "s3cr3t-and-n0thing-else"
SASL = f"""# a comment
bootstrap.servers = b1:9092, b2
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512

sasl.username=ada
sasl.password={SECRET}=
read_only=true
protected_groups=connect-*,billing
floors={{"max_groups": 7}}
"""


def cluster(*words: str) -> Cluster:
    parser, target = argparse.ArgumentParser(), ArgumentTarget()
    add_storage_arguments(target)
    for flags, settings in target.arguments:
        parser.add_argument(*flags, **settings)
    return Cluster(parser.parse_args(words))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(SASL)
    path.chmod(0o600)
    return path


def test_a_file_is_a_connection_with_all_its_restrictions(config: Path) -> None:
    found = cluster("--config", str(config)).settings
    assert found.properties["sasl.password"] == f"{SECRET}="
    assert (found.read_only, found.protected_groups, found.floors) == (
        True,
        ("connect-*", "billing"),
        {"max_groups": 7},
    )
    assert SECRET not in repr(found)
    client = cluster("--config", str(config)).get_conn()
    with pytest.raises(ConfigurationError, match="read-only"):
        asyncio.run(client.delete_consumer_groups(["a"]))


def test_an_airflow_connection_is_read_by_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PROD", '{"conn_type": "kafka_groups", "host": "b1"}')
    found = cluster("--conn-id", "prod", "--storage-path", "/data")
    assert found.settings.conn_id == "prod"
    assert found.layout().cluster == "prod"
    with pytest.raises(ConfigurationError, match="there is no such connection"):
        cluster("--conn-id", "no_such").get_conn()


def test_another_command_on_the_same_cluster_can_be_pasted() -> None:
    words = ("--conn-id", "prod", "--storage-path", "/my data")
    assert (
        cluster(*words).command("apply", "P") == "airflow-kafka-groups apply P --conn-id prod --storage-path '/my data'"
    )
    words = ("--config", "c.properties", "--cluster", "prod")
    assert cluster(*words).command("restore", "P").endswith("restore P --config c.properties --cluster prod")


@pytest.mark.parametrize("words", [(), ("--conn-id", "a", "--bootstrap-servers", "b")])
def test_exactly_one_way_is_given(words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="exactly one of --conn-id, --config or --bootstrap-servers"):
        cluster(*words)


def test_brokers_that_are_not_named_are_asked_for_where_they_belong(tmp_path: Path) -> None:
    assert dict(cluster("--bootstrap-servers", "b1:9092").settings.properties) == {"bootstrap.servers": "b1:9092"}
    (tmp_path / "empty").touch()
    for words, remedy in (
        (("--bootstrap-servers", " "), "--bootstrap-servers .*name the brokers"),
        (("--config", str(tmp_path / "empty")), "--config .*add the line bootstrap.servers=broker1:9092"),
    ):
        with pytest.raises(ConfigurationError, match=remedy):
            _ = cluster(*words).settings


def test_a_uri_of_which_airflow_reads_nothing_is_to_be_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PROD", "kafka_groups://b1:9092,b2:9092")
    with pytest.raises(ConfigurationError, match="in an environment variable, write it as JSON"):
        _ = cluster("--conn-id", "prod").settings


@pytest.mark.parametrize("words", [(), ("--storage-path", "/data")])
def test_a_misspelt_default_is_no_other_folder(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", '{"storage_pth": "/data", "clustr": "prod"}')
    with pytest.raises(ConfigurationError, match="KAFKA_GROUPS_DEFAULTS, name 'storage_pth': is unknown"):
        cluster("--conn-id", "kafka_groups_default", *words).layout()
    given = cluster("--conn-id", "kafka_groups_default", "--storage-path", "/data", "--cluster", "mine")
    assert given.layout().cluster == "mine"


def test_files_need_a_folder_and_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_GROUPS_DEFAULTS", raising=False)
    for words, named in (
        (("--storage-path", "/data"), "--cluster"),
        (("--cluster", "prod"), "--storage-path"),
        (("--cluster", "prod", "--storage-path", "data"), "absolute"),
    ):
        with pytest.raises(ConfigurationError, match=named):
            cluster("--bootstrap-servers", "b1", *words).layout()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (f"bootstrap.servers=b\nsasl.password {SECRET}\n", "line 2 is not"),
        (f"sasl.password=x\nsasl.password={SECRET}\n", "line 2 sets sasl.password a second time"),
        (f"={SECRET}\n", "line 1 is not"),
        (b"\xff\xfe", "no UTF-8"),
        (None, "No such file"),
        # Java's files may have a colon or a space between name and value, and base64 ends with equals signs.
        *((f"bootstrap.servers=b1\nsasl.password{end}{SECRET}==\n", "line 2 is not of") for end in (": ", " ")),
    ],
)
def test_a_bad_file_is_named_without_its_secrets(tmp_path: Path, content: str | bytes | None, named: str) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match=named) as raised:
        read_properties(path)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_file_with_a_secret_that_others_may_read_is_a_warning(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read_properties(config)
    assert capsys.readouterr().err == ""
    config.chmod(0o644)
    read_properties(config)
    assert f"chmod 600 {config}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        ("SASL_SSL", "NO_SUCH"),
        ("SCRAM-SHA-512", "OAUTHBEARER"),
        ("read_only=true", "readonly=true"),
        ("protected_groups=connect-*,billing", "protected_groups=re:("),
        ("b1:9092, b2", "127.0.0.1:1"),
        ("floors={", "floors={{"),
    ],
)
def test_no_error_has_a_secret(
    config: Path, tmp_path: Path, change: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(SASL.replace(*change))
    assert main(["list", "--config", str(config)]) in (1, 2)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err
    assert SECRET not in printed.err


@pytest.mark.safety
def test_who_runs_a_command_is_known_and_is_nobody_else_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal says who deleted, and so does the lease to those who wait for it."""
    before = actor("apply")
    assert set(before) == {"command", "user", "host"}
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert actor("apply") == before

    def nobody(uid: int) -> Any:
        raise KeyError(f"uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert actor("apply")["user"].isdecimal()


def test_a_file_of_javas_client_is_told_what_to_write(tmp_path: Path) -> None:
    """Its values may go on in the next line, which is of no form that is known here."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    for value in (f"{module} required \\\n  username=u \\\n  password={SECRET};", f"\\\n {module} required \\\n x=y"):
        path = tmp_path / "client.properties"
        path.write_text(f"bootstrap.servers=b1:9092\nsecurity.protocol=SASL_SSL\nsasl.jaas.config={value}\n")
        with pytest.raises(ConfigurationError, match=r"write sasl\.username and") as refused:
            _ = cluster("--config", str(path)).settings
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_is_no_name_and_a_password_may_end_pythons_lines(tmp_path: Path, end: str) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(f"\ufeffbootstrap.servers=b1:9092{end}sasl.password=a\x85b\u2028c\x0cd{end}".encode())
    assert read_properties(file) == {"bootstrap.servers": "b1:9092", "sasl.password": "a\x85b\u2028c\x0cd"}
