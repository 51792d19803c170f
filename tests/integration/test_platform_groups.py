"""Groups that an ACL hides, and one that everybody may list and nobody may describe, as on Google Managed Kafka."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_kafka_groups.cli.main import main
from tests.lab.cluster import KafkaCluster
from tests.lab.security.acls import AUTHORIZER, allow
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

PROBER = "__internal_google_managed_kafka_prober_cg"
USERS = {"team": "t-pass", "nobody": "n-pass"}
Arguments = Callable[..., list[str]]
FEWER = "Only groups that this user may describe are listed: there may be more."


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users=USERS, config=AUTHORIZER) as cluster:
        create_topics(cluster.bootstrap, {"orders": 1})
        seed_groups(cluster.bootstrap, ["app-a", "app-b", PROBER], {("orders", 0): 0})
        allow(cluster, "team", "GROUP", "app-", "DESCRIBE", "READ", "DELETE", prefixed=True)
        allow(cluster, "team", "GROUP", "airflow-kafka-groups-lease", "READ")
        allow(cluster, "team", "BROKER", "kafka-cluster", "DESCRIBE", "DESCRIBE_CONFIGS")
        allow(cluster, "team", "TOPIC", "*", "DESCRIBE", "READ")
        yield cluster


@pytest.fixture
def as_user(guarded: KafkaCluster, tmp_path: Path) -> Arguments:
    def arguments(user: str, command: str, *more: str) -> list[str]:
        config = tmp_path / f"{user}.properties"
        config.write_text(
            f"bootstrap.servers={guarded.sasl_bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f"sasl.username={user}\nsasl.password={USERS[user]}\n"
        )
        config.chmod(0o600)
        return [command, "--config", str(config), *more, "-o", "json"]

    return arguments


@pytest.mark.parametrize("command", ["list", "lag", "offsets", "snapshot", "backup", "doctor"])
def test_a_protected_group_that_nobody_may_describe_is_a_row_and_no_failure(
    command: str, as_user: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = ["--storage-path", str(tmp_path / "kept"), "--cluster", "c"]
    more = stored if command in ("snapshot", "backup", "doctor") else ["--include", "*"]
    code = main(as_user("team", command, *more))
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert FEWER not in err
    if command == "doctor":
        of_kafka = {each["check"]: each for each in data}
        assert of_kafka["protected groups"]["text"].endswith(f"The first is {PROBER!r}.")
        assert {of_kafka[f"{right} groups"]["status"] for right in ("delete", "restore")} == {"ok"}
        assert of_kafka["read offsets"]["text"] == "Allowed with 2 of 2 groups."
        return
    assert code == 0, err
    if command == "snapshot":
        assert (data["groups"], data["failed_groups"], data["failed"]) == (3, 0, [])
    else:
        rows = data["groups"] if command == "backup" else data
        assert [row["group_id"] for row in rows if row["group_id"] == PROBER] == [PROBER]


def test_one_that_is_asked_for_by_name_and_not_read_is_a_failure(
    as_user: Arguments, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(as_user("team", "lag", PROBER)) == 3
    assert "GROUP_AUTHORIZATION_FAILED" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["list", "lag"])
def test_a_listing_that_lacks_what_this_user_may_not_see_is_not_called_empty(
    command: str, as_user: Arguments, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(as_user("nobody", command)) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert f"warning: {FEWER} Allow Describe on the cluster to see every group." in err
