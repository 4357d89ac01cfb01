"""Is a schema registry that answers without end left?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from headrace.arrow.registry import Registry
from headrace.core.errors import OperatorError

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


class Endless(BaseHTTPRequestHandler):
    """Each schema refers to two more, under `/tree` to ever new ones and else to itself; `/moved` is always elsewhere."""

    def do_GET(self) -> None:
        """Any schema."""
        self.server.asked += 1  # type: ignore[attr-defined]
        if self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", self.path + "x")
            self.end_headers()
            return
        asked = self.path.split("/")[-3] if "subjects" in self.path else "s"
        names = [asked + "0", asked + "1"] if self.path.startswith("/tree") else ["s"]
        references = [{"name": name, "subject": name, "version": 1} for name in names]
        found = {"subject": asked, "id": 1, "version": 1, "schema": SCHEMA, "references": references}
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # the name of the class above
        """Say nothing."""


@pytest.fixture
def endless() -> Iterator[ThreadingHTTPServer]:
    """The server of such answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        server.asked = 0  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "reason"),
    [("ring", "refers to itself"), ("tree", "refers to itself, or to too many"), ("moved", "gave no schema 1")],
)
def test_a_registry_without_end_is_left(endless: ThreadingHTTPServer, path: str, reason: str) -> None:
    """Schemas that refer to others for ever, and redirects that lead to redirects: some requests, then one line that says so."""
    registry = Registry({"url": f"http://127.0.0.1:{endless.server_address[1]}/{path}"})
    with pytest.raises(OperatorError, match=reason):
        registry.by_id(1)
    registry.close()
    assert endless.asked < 200  # type: ignore[attr-defined]
