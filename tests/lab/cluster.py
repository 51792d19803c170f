"""A real Kafka cluster on loopback ports, as a context manager.

Brokers are killed, never asked to stop: their data is thrown away anyway. Whatever becomes of this process, the
reaper kills the brokers and removes their folder.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from tests.lab import jars, layout, readiness
from tests.lab.errors import LabError
from tests.lab.layout import Layout
from tests.lab.machine.ports import HOST, free_ports
from tests.lab.machine.process import LabProcess, Programs, tail
from tests.lab.machine.service import Service
from tests.lab.machine.waiting import until
from tests.lab.properties import Node, uses_zookeeper
from tests.lab.servers import proxy

START_TIMEOUT_S = 120.0
_PORT_TRIES = 3
_PORT_TAKEN = "address already in use"
_NODE_EXISTS = "NodeExists"  # ZooKeeper still remembers the killed broker's session


class KafkaCluster(Service):
    """Run brokers of one Kafka version until ``stop()`` or the end of the ``with`` block.

    :param version: a released Kafka version; below 3.3 a ZooKeeper is started with it.
    :param brokers: how many; node ids count from 1. With KRaft each is a controller as well.
    :param config: broker properties that replace the lab's own.
    :param delay_ms: delay clients by this much each way (a round trip takes twice as long); brokers among
        themselves are not delayed.
    :param heap_mb: heap limit of each broker.
    :param full_jit: let the JVM optimise fully and take all its heap: a slower start, more speed later. For benchmarks.
    :param sasl_users: names and passwords of who may log in at ``sasl_bootstrap`` (SASL_PLAINTEXT: PLAIN, or
        OAUTHBEARER with an unsigned token); default: there is no such listener.
    :param java_options: further options of the brokers' JVMs, such as ``-Dname=value``.
    :param data: the data of another cluster's only broker, by KRaft, to start with a copy of; default: no data.
    :param timeout: seconds until all brokers have to be ready.

    Raises LabError, with the log tail of the node concerned, when the cluster does not come up.
    """

    def __init__(
        self,
        *,
        version: str = "4.1.0",
        brokers: int = 3,
        config: Mapping[str, object] | None = None,
        delay_ms: float = 0,
        heap_mb: int = 384,
        full_jit: bool = False,
        sasl_users: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        data: Path | None = None,
        timeout: float = START_TIMEOUT_S,
    ) -> None:
        jars.parse_version(version)
        if brokers < 1:
            raise LabError(f"A cluster needs at least one broker, not {brokers}.")
        if delay_ms < 0:
            raise LabError(f"A delay cannot be negative, as {delay_ms:g} ms is.")
        self.version = version
        self.size = brokers
        self._config = dict(config or {})
        self._delay_ms = delay_ms
        self._heap_mb = heap_mb
        self._full_jit = full_jit
        self._sasl_users = dict(sasl_users or {})
        self._java_options = tuple(java_options)
        self._data = data
        self._timeout = timeout
        self._layout: Layout | None = None
        self._processes: dict[int, LabProcess] = {}
        self._wanted: set[int] = set()
        self._helpers: list[LabProcess] = []

    @property
    def bootstrap(self) -> str:
        """Return ``bootstrap.servers`` with all brokers."""
        return ",".join(node.address for node in self._ready_layout.nodes)

    @property
    def sasl_bootstrap(self) -> str:
        """Return ``bootstrap.servers`` of the listener to log in at."""
        if not self._sasl_users:
            raise LabError("Nobody may log in at this cluster: start it with sasl_users.")
        return ",".join(f"{HOST}:{node.sasl_port}" for node in self._ready_layout.nodes)

    @property
    def brokers(self) -> tuple[int, ...]:
        """Return the node ids, killed ones included."""
        return tuple(range(1, self.size + 1))

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(node_id for node_id, process in self._processes.items() if process.is_running())

    @property
    def folder(self) -> Path:
        """Return where data and logs are."""
        return self._ready_layout.folder

    @property
    def libs(self) -> Path:
        """Return the folder of the version's jars."""
        return self._ready_layout.libs

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the process ids of everything that runs for this cluster."""
        every = self._layout.programs.processes if self._layout else ()
        return tuple(process.pid for process in every if process.is_running())

    def pid(self, node_id: int) -> int:
        return self._processes[node_id].pid

    def address(self, node_id: int) -> str:
        """Return ``host:port`` of one broker, as clients connect to it."""
        return self._node(node_id).address

    def start(self) -> Self:
        """Start everything and wait until every broker answers and knows all the others."""
        if self._layout is not None:
            raise LabError("This cluster is running already.")
        libs = jars.fetch(self.version)
        for attempt in range(1, _PORT_TRIES + 1):
            try:
                self._start_once(libs)
                return self
            except LabError as exc:
                self.stop()
                if attempt == _PORT_TRIES or _PORT_TAKEN not in str(exc).lower():
                    raise
            except BaseException:  # Ctrl-C while starting
                self.stop()
                raise
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """Kill everything and remove the folder. May be called twice."""
        if self._layout is not None:
            self._layout.programs.stop()
        self._processes.clear()
        self._helpers.clear()
        self._wanted.clear()
        self._layout = None

    def kill(self, node_id: int) -> None:
        """Kill one broker as a power cut would (SIGKILL)."""
        self._node(node_id)
        self._wanted.discard(node_id)
        self._processes[node_id].kill()

    def restart(self, node_id: int) -> None:
        """Start a broker again with its old data and ports (killing it first if need be) and wait until it is back."""
        node = self._node(node_id)
        self._processes[node_id].kill()
        deadline = time.monotonic() + self._timeout
        while True:
            self._start_broker(node)
            try:
                self._wait(deadline, (node,))
                return
            except LabError:
                if _NODE_EXISTS not in self.log_tail(node_id) or time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def upgrade(self, node_id: int, version: str) -> None:
        """Start a broker again as one of a newer version, with its old data and settings, and wait until it is back."""
        self._layout = replace(self._ready_layout, libs=jars.fetch(version))
        self.restart(node_id)

    def log_tail(self, node_id: int, lines: int = 40) -> str:
        """Return the last lines one broker logged; also after its death."""
        return tail(self._node(node_id).folder / f"broker-{node_id}.log", lines)

    def start_process(self, name: str, command: list[str]) -> LabProcess:
        """Start another program beside the brokers, such as a console consumer; it ends with them at the latest."""
        return self._ready_layout.programs.start(name, command)

    def _start_once(self, libs: Path) -> None:
        programs = Programs("lab")
        delayed = self._delay_ms > 0
        zookeeper_port = free_ports(1)[0] if uses_zookeeper(self.version) else 0
        self._layout = Layout(
            version=self.version,
            libs=libs,
            programs=programs,
            nodes=layout.plan_nodes(programs.folder, self.size, delayed=delayed, sasl=bool(self._sasl_users)),
            zookeeper_port=zookeeper_port,
            java_options=self._java_options,
        )
        layout.write_files(self._layout, self._config, self._sasl_users, self._data)
        if zookeeper_port:
            command = self._layout.zookeeper().command()
            self._helpers.append(programs.start("zookeeper", command))
        if delayed:
            command = proxy.command([(node.proxy_port, node.port) for node in self._layout.nodes], self._delay_ms)
            self._helpers.append(programs.start("proxies", command))
        for node in self._layout.nodes:
            self._start_broker(node)
        self._wait(time.monotonic() + self._timeout, self._layout.nodes)

    def _start_broker(self, node: Node) -> None:
        program = self._ready_layout.broker(node, heap_mb=self._heap_mb, full_jit=self._full_jit)
        name = f"broker-{node.node_id}"
        started = self._ready_layout.programs.start(name, program.command(), node.folder)
        self._processes[node.node_id] = started
        self._wanted.add(node.node_id)

    def _wait(self, deadline: float, nodes: tuple[Node, ...]) -> None:
        """Wait until these nodes know all living ones, and the coordinators of groups are at work."""
        expected = frozenset(self._wanted)
        for node in nodes:
            self._until(deadline, node, functools.partial(readiness.knows, node, expected))
        if len(expected) == self.size:  # with brokers missing, a coordinator may be missing for good
            self._until(deadline, nodes[0], functools.partial(readiness.has_coordinators, nodes[0]))

    def _until(self, deadline: float, node: Node, is_ready: Callable[[], bool]) -> None:
        said = f"Broker {node.node_id} of Kafka {self.version} was not ready in time. It logged:\n"
        left = deadline - time.monotonic()
        until(is_ready, left, lambda: said + self.log_tail(node.node_id), meanwhile=self._check_alive)

    def _check_alive(self) -> None:
        for process in (*(self._processes[node_id] for node_id in sorted(self._wanted)), *self._helpers):
            if not process.is_running():
                raise LabError(
                    f"{process.name} of Kafka {self.version} ended with exit code {process.exit_code}. It logged:\n"
                    f"{process.log_tail()}"
                )

    def _node(self, node_id: int) -> Node:
        for node in self._ready_layout.nodes:
            if node.node_id == node_id:
                return node
        raise LabError(f"There is no broker {node_id}; this cluster has {', '.join(map(str, self.brokers))}.")

    @property
    def _ready_layout(self) -> Layout:
        if self._layout is None:
            raise LabError("This cluster is not running: use `with KafkaCluster(...) as cluster:`, or call start().")
        return self._layout
