"""The identity of a log directory: whose data it holds.

`meta.properties` (S1-01, KIP-631, KIP-858): a properties text with `version=1`, `cluster.id`, `node.id` and `directory.id`. Older files
say `broker.id` for `node.id`. It is replaced atomically.
"""

from __future__ import annotations

from typing import Final

from headrace.core.errors import OperatorError
from headrace.core.ids import Uuid
from headrace.core.ports import Files
from headrace.core.values import value_class
from headrace.storage.atomic import replace_file

FILE_NAME: Final = "meta.properties"


@value_class
class MetaProperties:
    """What the file says. `version` 0 files have only a broker id; `directory_id` is missing in those of before 3.7."""

    cluster_id: str | None
    node_id: int | None
    directory_id: Uuid | None = None
    version: int = 1


def parse_meta_properties(text: str, *, path: str) -> MetaProperties:
    """The file's content; `path` is for the message. Raises OperatorError: says which line is wrong."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, separator, value = stripped.partition("=")
        if not separator:
            raise OperatorError(f"{path}: expected key=value, found {stripped!r}")
        values[key.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    version = _number(values, "version", path)
    if version not in (0, 1):
        raise OperatorError(f"{path}: version {values.get('version')!r} is not known; expected 0 or 1")
    node_id = _number(values, "node.id", path) if "node.id" in values else None
    broker_id = _number(values, "broker.id", path) if "broker.id" in values else None
    if None not in (node_id, broker_id) and node_id != broker_id:
        raise OperatorError(f"{path}: node.id {node_id} and broker.id {broker_id} differ")
    try:
        directory_id = Uuid.parse(values["directory.id"]) if "directory.id" in values else None
    except ValueError as error:
        raise OperatorError(f"{path}: directory.id: {error}") from None
    return MetaProperties(
        cluster_id=values.get("cluster.id"),
        node_id=node_id if node_id is not None else broker_id,
        directory_id=directory_id,
        version=version,
    )


def _number(values: dict[str, str], key: str, path: str) -> int:
    text = values.get(key)
    if text is None:
        raise OperatorError(f"{path}: {key} is missing")
    try:
        return int(text)
    except ValueError:
        raise OperatorError(f"{path}: {key} is {text!r}, not a number") from None


def meta_properties_text(properties: MetaProperties, *, date: str) -> str:
    """The file's text, as Kafka writes it. `date` goes into a comment."""
    lines = ["#", f"#{date}"]
    if properties.node_id is not None:
        lines.append(f"node.id={properties.node_id}")
    if properties.directory_id is not None:
        lines.append(f"directory.id={properties.directory_id}")
    lines.append(f"version={properties.version}")
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={properties.cluster_id}")
    return "\n".join(lines) + "\n"


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """The properties of a log directory; None when it is not formatted. Raises OperatorError for a damaged file (B76)."""
    path = f"{directory}/{FILE_NAME}"
    data = files.read_file(path)
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise OperatorError(f"{path} is damaged: it is not text") from None
    return parse_meta_properties(text, path=path)


def write_meta_properties(files: Files, directory: str, properties: MetaProperties, *, date: str) -> None:
    """Replace the file durably. `date` is a text for its comment line. Raises StorageFault."""
    replace_file(files, directory, FILE_NAME, meta_properties_text(properties, date=date).encode())
