"""Which pages are generated, and by what."""

from collections.abc import Callable, Mapping

from tests.reference.command_options import command_line_page
from tests.reference.connection import connection_page
from tests.reference.dag_parameters import dags_page
from tests.reference.metrics import metrics_page

PAGES_BY_NAME: Mapping[str, Callable[[], str]] = {
    "command-line-options.md": command_line_page,
    "connection-fields.md": connection_page,
    "dag-parameters.md": dags_page,
    "metrics.md": metrics_page,
}
