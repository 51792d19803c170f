"""The token endpoint's certificate is checked by the authority that is given, as a file or as text."""

from __future__ import annotations

import json
import ssl
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError
from airflow_kafka_groups.kafka.cluster.client_credentials import client_credentials
from airflow_kafka_groups.kafka.transport.pem import Pem
from airflow_kafka_groups.kafka.transport.security import TokenEndpoint
from tests.lab.security.certificates import Authority

AUTHORITY = Authority()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pair, folder = AUTHORITY.issue("login"), tmp_path_factory.mktemp("endpoint")
    for name, text in (("certificate", pair.certificate), ("key", pair.key)):
        (folder / name).write_text(text)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate", folder / "key")

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": "t1", "expires_in": 3600}).encode())

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}/token"
        server.shutdown()


def endpoint(url: str, **authority: str) -> TokenEndpoint:
    return TokenEndpoint(url=url, client_id="me", client_secret="s", ca=Pem(name="https.ca", **authority))


@pytest.mark.parametrize("form", ["text", "location"])
def test_an_authority_of_ones_own_is_trusted(url: str, tmp_path: Path, form: str) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(AUTHORITY.certificate)
    authority = {form: AUTHORITY.certificate if form == "text" else str(file)}
    token, _ = client_credentials(endpoint(url, **authority))("")
    assert token == "t1"


def test_any_other_authority_is_not(url: str) -> None:
    for authority in ({}, {"text": Authority().certificate}):
        with pytest.raises(ConnectionFailedError, match="gave no token"):
            client_credentials(endpoint(url, **authority))("")


@pytest.mark.safety
def test_a_key_in_the_address_of_the_endpoint_is_shown_nowhere() -> None:
    """Some gateways take one in the query; what requests the token shows the address without it."""
    assert "hunter2" not in repr(endpoint("https://host/token?key=hunter2"))
    with pytest.raises(ConfigurationError, match=r"got 'htps://host/token'") as caught:
        endpoint("htps://host/token?key=hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.safety
@pytest.mark.parametrize(
    "url",
    [
        *("https://me:hunter2@h\N{ACCOUNT OF}st/token", "https://me:hunter2[@host/token"),
        *("https://me:hunter2/+x@host/token", "https://me:hunter2#x@host/token", "https://me:hunter2?x@host/token"),
    ],
)
def test_what_is_no_address_of_an_endpoint_is_an_error_that_does_not_show_it(url: str) -> None:
    """Python's own error quoted the user and password before the host, and was no error of this package."""
    with pytest.raises(ConfigurationError, match=r"token\.endpoint\.url: is no URL, such as") as caught:
        endpoint(url)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.safety
@pytest.mark.parametrize("url", ["https://me:hunter2@host/t", "https:/me:hunter2@host/t", "me:hunter2@host/t"])
def test_a_user_is_refused_and_not_shown_however_many_slashes_are_before_it(url: str) -> None:
    """Without two of them, it is a part of the path to Python."""
    with pytest.raises(ConfigurationError, match="write it without a user") as caught:
        endpoint(url)
    assert "hunter2" not in str(caught.value)
    assert endpoint("https://host/@tenant/token").url == "https://host/@tenant/token"
