"""What a node of the lab is configured with. Pure: from a layout to the text of a properties file.

Later entries win: lab defaults, then what the version wants, then the caller's own ``config``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab.jars import parse_version
from tests.lab.machine.ports import HOST

Properties = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where one broker listens and keeps its data.

    ``controller_port`` is KRaft's; ``proxy_port`` is where clients are sent when the lab delays them, and
    ``inner_port`` is where brokers then talk to each other, undelayed. ``sasl_port`` is where clients log in.
    """

    node_id: int
    folder: Path
    port: int
    controller_port: int = 0
    proxy_port: int = 0
    inner_port: int = 0
    sasl_port: int = 0

    @property
    def data(self) -> Path:
        """Return the folder of the log segments."""
        return self.folder / "data"

    @property
    def address(self) -> str:
        """Return what clients connect to."""
        return f"{HOST}:{self.proxy_port or self.port}"


def uses_zookeeper(version: str) -> bool:
    """Return whether this version is run with ZooKeeper: KRaft is ready for use from 3.3 on."""
    return parse_version(version) < (3, 3, 0)


def features(version: str) -> Properties:
    """Return the features to switch on when formatting, beyond what the version has on by itself."""
    return {"share.version": "1"} if parse_version(version) >= (4, 1, 0) else {}


def broker_properties(
    version: str,
    node: Node,
    nodes: tuple[Node, ...],
    *,
    zookeeper_port: int = 0,
    sasl_users: Mapping[str, str] | None = None,
    config: Mapping[str, object] | None = None,
) -> Properties:
    """Return the configuration of one broker; ``sasl_users`` are the names and passwords of who may log in."""
    made = _common(node, len(nodes)) | _listeners(node)
    made |= _zookeeper(node, zookeeper_port) if uses_zookeeper(version) else _kraft(version, node, nodes)
    if node.sasl_port:
        made |= _sasl(node, made, sasl_users or {})
    for key, value in (config or {}).items():
        made[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return made


def _common(node: Node, brokers: int) -> Properties:
    copies = str(min(3, brokers))
    return {
        "log.dirs": str(node.data),
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "true",
        "default.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "50",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.num.partitions": "8",
        "transaction.state.log.min.isr": "1",
        "min.insync.replicas": "1",
        # small: a laptop runs three of these beside Spark and Airflow
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "log.cleaner.dedupe.buffer.size": "16777216",
        "log.index.size.max.bytes": "1048576",
        "log.retention.check.interval.ms": "300000",
        # a killed broker is noticed soon, but a busy one is not taken for dead
        "replica.lag.time.max.ms": "10000",
        # followers of an idle cluster ask less often; new data is sent to them at once all the same
        "replica.fetch.wait.max.ms": "2000",
        "controlled.shutdown.enable": "false",
    }


def _listeners(node: Node) -> Properties:
    if not node.proxy_port:
        return {
            "listeners": f"PLAINTEXT://{HOST}:{node.port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
    inner = f"INNER://{HOST}:{node.inner_port}"
    return {
        "listeners": f"PLAINTEXT://{HOST}:{node.port},{inner}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{node.proxy_port},{inner}",
        "inter.broker.listener.name": "INNER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


def _sasl(node: Node, made: Properties, users: Mapping[str, str]) -> Properties:
    """Add a listener to log in at, with PLAIN or an (unsigned) OAUTHBEARER token; the plain one stays for the lab."""
    listener = f"LOGIN://{HOST}:{node.sasl_port}"
    module = "org.apache.kafka.common.security"
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return {
        "listeners": f"{made['listeners']},{listener}",
        "advertised.listeners": f"{made['advertised.listeners']},{listener}",
        "listener.security.protocol.map": f"{made['listener.security.protocol.map']},LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.login.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {known};",
        "listener.name.login.oauthbearer.sasl.jaas.config": (
            f'{module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="lab";'
        ),
    }


def _zookeeper(node: Node, zookeeper_port: int) -> Properties:
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{HOST}:{zookeeper_port}",
        "zookeeper.session.timeout.ms": "4000",
        "zookeeper.connection.timeout.ms": "30000",
    }


def _kraft(version: str, node: Node, nodes: tuple[Node, ...]) -> Properties:
    listeners = _listeners(node)["listeners"]
    made = {
        "node.id": str(node.node_id),
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{n.node_id}@{HOST}:{n.controller_port}" for n in nodes),
        "listeners": f"{listeners},CONTROLLER://{HOST}:{node.controller_port}",
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        "metadata.max.idle.interval.ms": "5000",  # nothing happens in most clusters, and that need not be written down
    }
    if parse_version(version) >= (4, 1, 0):
        copies = str(min(3, len(nodes)))
        made["share.coordinator.state.topic.replication.factor"] = copies
        made["share.coordinator.state.topic.num.partitions"] = "8"
        made["share.coordinator.state.topic.min.isr"] = "1"
    return made


def zookeeper_properties(folder: Path, port: int) -> Properties:
    return {
        "dataDir": str(folder / "zookeeper"),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "tickTime": "500",
        "maxSessionTimeout": "30000",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }


def render(properties: Mapping[str, str]) -> str:
    """Write a Java properties file; backslashes and line ends in values are escaped."""
    escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in properties.items()}
    return "".join(f"{key}={value}\n" for key, value in sorted(escaped.items()))
