"""A cluster's place on this machine: its folder, its nodes' folders and ports, and the files they start from."""

import base64
import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab import properties
from tests.lab.errors import LabError
from tests.lab.machine.ports import free_ports
from tests.lab.machine.process import JavaProgram, Programs, run_tool
from tests.lab.properties import Node

FORMAT_TIMEOUT_S = 120
_QUICK_JIT = "-XX:TieredStopAtLevel=1"  # measured: three brokers up in 4.5 s instead of 6 s


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a cluster's processes are started with."""

    version: str
    libs: Path
    programs: Programs
    nodes: tuple[Node, ...]
    zookeeper_port: int = 0
    java_options: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.programs.folder

    def broker(self, node: Node, *, heap_mb: int, full_jit: bool) -> JavaProgram:
        """Return the broker's program.

        :param full_jit: trade a slower start and more memory for a faster broker later: its whole heap is there from
            the start, as Kafka's own start script has it, and is not found by one full collection after the other.
        """
        speed = (f"-Xms{heap_mb}m",) if full_jit else ("-Xms128m", _QUICK_JIT)
        return JavaProgram(
            libs=self.libs,
            main_class="kafka.Kafka",
            arguments=(str(node.folder / "server.properties"),),
            options=(f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", *speed, *self.java_options),
        )

    def zookeeper(self) -> JavaProgram:
        return JavaProgram(
            libs=self.libs,
            main_class="org.apache.zookeeper.server.quorum.QuorumPeerMain",
            arguments=(str(self.folder / "zookeeper.properties"),),
            options=("-Xmx96m", "-XX:+UseSerialGC", _QUICK_JIT),
        )


def plan_nodes(folder: Path, brokers: int, *, delayed: bool, sasl: bool = False) -> tuple[Node, ...]:
    """Assign every node its folder and free ports."""
    ports = iter(free_ports(5 * brokers))
    nodes = []
    for node_id in range(1, brokers + 1):
        port, controller_port, proxy_port, inner_port, sasl_port = (next(ports) for _ in range(5))
        nodes.append(
            Node(
                node_id=node_id,
                folder=folder / f"broker-{node_id}",
                port=port,
                controller_port=controller_port,
                proxy_port=proxy_port if delayed else 0,
                inner_port=inner_port if delayed else 0,
                sasl_port=sasl_port if sasl else 0,
            )
        )
    return tuple(nodes)


def write_files(
    layout: Layout, config: Mapping[str, object], sasl_users: Mapping[str, str] | None = None, data: Path | None = None
) -> None:
    """Write every node's configuration, and format its data folder where the version wants that, or copy this one."""
    for node in layout.nodes:
        node.data.mkdir(parents=True)
        made = properties.broker_properties(
            layout.version,
            node,
            layout.nodes,
            zookeeper_port=layout.zookeeper_port,
            sasl_users=sasl_users,
            config=config,
        )
        (node.folder / "server.properties").write_text(properties.render(made))
    if layout.zookeeper_port:
        made = properties.zookeeper_properties(layout.folder, layout.zookeeper_port)
        (layout.folder / "zookeeper.properties").write_text(properties.render(made))
    elif data is not None:
        shutil.copytree(data, layout.nodes[0].data, dirs_exist_ok=True)
    else:
        _format(layout)


def _format(layout: Layout) -> None:
    """Give each node a folder as Kafka's own tool formats it."""
    formatted, cluster_id = _formatted(layout), _random_id()
    for node in layout.nodes:
        shutil.copytree(formatted, node.data, dirs_exist_ok=True)
        meta = node.data / "meta.properties"
        meta.write_text(retarget(meta.read_text(), node.node_id, cluster_id))


def _formatted(layout: Layout) -> Path:
    """Return a folder that is formatted for the version. The first cluster makes it: the tool's JVM takes a second."""
    switched_on = [f"{name}={level}" for name, level in properties.features(layout.version).items()]
    place = layout.libs.parent / "-".join(("formatted", *switched_on))
    if place.exists():
        return place
    with tempfile.TemporaryDirectory(prefix="formatting-", dir=place.parent) as unfinished:
        node = Node(node_id=1, folder=Path(unfinished), port=1, controller_port=2)  # nothing listens while it formats
        node.data.mkdir()
        config = node.folder / "server.properties"
        config.write_text(properties.render(properties.broker_properties(layout.version, node, (node,))))
        arguments = ["format", "--cluster-id", _random_id(), "--config", str(config)]
        for feature in switched_on:
            arguments += ["--feature", feature]
        tool = JavaProgram(
            libs=layout.libs,
            main_class="kafka.tools.StorageTool",
            arguments=tuple(arguments),
            options=("-Xmx128m", "-XX:+UseSerialGC", _QUICK_JIT),
        )
        done = run_tool(tool, timeout=FORMAT_TIMEOUT_S)
        if done.returncode != 0:
            said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("\tat ")]
            raise LabError(f"Kafka {layout.version} formats no folder: {' '.join(said)[-1000:]}")
        with contextlib.suppress(OSError):  # another process has been faster
            node.data.rename(place)
    return place


def retarget(meta: str, node_id: int, cluster_id: str) -> str:
    """Rewrite a formatted folder's ``meta.properties`` for a node of a cluster."""
    changed = {"cluster.id": cluster_id, "node.id": str(node_id), "directory.id": _random_id()}
    lines = (line.partition("=") for line in meta.splitlines())
    return "".join(f"{key}{equals}{changed.get(key, value)}\n" for key, equals, value in lines)


def _random_id() -> str:
    """Return a random id as Kafka spells them; never one that a command line would take for an option."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made
