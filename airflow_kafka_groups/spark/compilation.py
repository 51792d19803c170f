"""Which of the JVM's compilers work for a job: a short one ends before the optimising compiler pays off.

In a job that ends within a minute, HotSpot's optimising compiler takes a quarter of the processor time and more, and on
two cores the time of one of them. ``jcmd Compiler.directives_add`` excludes it while the JVM runs, and the program
itself can call this command through an MBean. JVMs without the command compile as they always do.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql.utils import is_remote

_COMMANDS = "com.sun.management:type=DiagnosticCommand"
_DIRECTIVE = '[{match: "*.*", c2: {Exclude: true}}]'
_quick = False


def compile_quickly() -> None:
    """Start the JVM, and exclude the optimising compiler until ``compile_thoroughly``. For a JVM of this job only."""
    global _quick
    if is_remote():
        return
    SparkContext._ensure_initialized()  # the JVM, which compiles most when the session starts
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "directives.json")
        file.write_text(_DIRECTIVE)
        _quick = _command("compilerDirectivesAdd", str(file)) is not None


def compile_thoroughly() -> None:
    """Use all compilers again for code that becomes hot from now on."""
    global _quick
    if _quick:
        _quick = _command("compilerDirectivesRemove") is None


def _command(name: str, *arguments: str) -> str | None:
    """Return the answer to a diagnostic command; ``None`` if the JVM does not know it."""
    gateway: Any = SparkContext._gateway
    lang = gateway.jvm.java.lang

    def array(kind: Any, *values: Any) -> Any:
        made = gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made

    with suppress(Py4JError):
        strings = array(lang.String, *arguments)
        types = array(lang.String, *([strings.getClass().getName()] if arguments else ()))
        given = array(lang.Object, *([strings] if arguments else ()))
        bean = getattr(gateway.jvm, "javax.management.ObjectName")(_COMMANDS)
        # The server's own class is not accessible, so the method is that of its interface.
        server = lang.management.ManagementFactory.getPlatformMBeanServer()
        interface = lang.Class.forName("javax.management.MBeanServer")
        named = (bean.getClass(), lang.Class.forName("java.lang.String"), given.getClass(), types.getClass())
        invoke = interface.getMethod("invoke", array(getattr(gateway.jvm, "java.lang.Class"), *named))
        return str(invoke.invoke(server, array(lang.Object, bean, name, given, types)))
    return None
