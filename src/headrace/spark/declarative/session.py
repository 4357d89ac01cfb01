"""A Spark Connect session for a pipeline: one at a server that runs, or one of a server that lives in this process as long as the pipeline runs."""

from __future__ import annotations

import os
import secrets
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.core.errors import OperatorError
from headrace.spark.session import environment_as_before, local_session, stop_session

NOTES: Final = ".headrace"
"""The directory of a project for what a run leaves to be looked at: Spark's log, and what is known of its flows."""
_CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""By these functions of PySpark answer for Connect; they go back to what they were."""
_CONNECT_PORT: Final = 15002
_CONNECT_TIMEOUT_S: Final = 10
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"
_SERVER: Final = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.port": "0",  # any free one: pipelines may run side by side
    "spark.connect.grpc.binding.address": "localhost",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    "spark.sql.connect.serverStacktrace.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pipeline runs: at a Connect server (`remote`), or in a session of its own with this master."""

    master: str = "local[*]"
    remote: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    log_path: Path | None = None


def project_config(directory: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Settings of a server of our own: a catalog and a warehouse in the project's directory, so that tables outlive the run. What is `given` goes before.

    Spark takes these as settings of the server only, not of a run, which is why the spec file cannot have them.
    """
    notes = directory / NOTES
    options = f"-Dderby.stream.error.file={notes / 'derby.log'} {given.get('spark.driver.extraJavaOptions', '')}"
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory / 'catalog'};create=true",
        **given,
        "spark.driver.extraJavaOptions": options.strip(),
    }


@contextmanager
def connect_session(place: Place) -> Iterator[Any]:
    """A Connect session; afterwards it is closed, and its server stopped if that was ours. Raises OperatorError."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="pyspark")
            import grpc
            from pyspark.errors import PySparkException
            from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise OperatorError(f"pipelines need more packages: pip install 'headrace[spark]' ({error})") from error
    with environment_as_before((_CONNECT_MODE, _TOKEN)), connect_server(place) as url, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pyspark")
        builder = SparkSession.builder.remote(url)
        for key, value in place.config.items() if place.remote else ():
            builder = builder.config(key, value)
        try:
            spark = builder.create()
        except (grpc.RpcError, PySparkException) as error:
            raise OperatorError(f"{place.remote or place.master}: {error}") from error
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def connect_server(place: Place) -> Iterator[str]:
    """The address of a Connect server: the one that was named, or one of our own that ends afterwards. It asks for a token that is in its address."""
    if place.remote is not None:
        _check_reachable(place.remote)
        os.environ[_CONNECT_MODE] = "1"
        yield place.remote
        return
    token = secrets.token_hex(16)
    os.environ[_TOKEN] = token
    session = local_session(
        "headrace-pipeline", master=place.master, config={**place.config, **_SERVER}, log_path=place.log_path
    )
    try:
        service = getattr(session._jvm, _SERVICE)  # noqa: SLF001 - as PySpark itself asks for the port
        port = getattr(service, "MODULE$").localPort()
        os.environ[_CONNECT_MODE] = "1"
        yield f"sc://localhost:{port}/;token={token}"
    finally:
        os.environ.pop(_CONNECT_MODE, None)
        stop_session(session)


def _check_reachable(remote: str) -> None:
    """Ask for a connection first: Spark's own client tries for ten minutes. Raises OperatorError."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        raise OperatorError(f"--remote {remote}: give sc://HOST:PORT, the address of a Spark Connect server")
    try:
        socket.create_connection((parts.hostname, parts.port or _CONNECT_PORT), timeout=_CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        raise OperatorError(f"--remote {remote}: no Spark Connect server answers there ({error})") from error
