"""The journal of what happened to the metadata side of this node, so that it can happen again elsewhere.

A journal (setting `headrace.journal.file`) is a text of JSON lines. The first says what the node was: its settings, the seed of its chance,
and the files of its metadata directory as the process found them. Each further line is one event that `MetadataPlane` took, with a digest of
its effects. `headrace debug replay` feeds them to a fresh node on a simulated disk and says where it does something else.

A journal grows without bound and holds metadata in clear, passwords' keys included: it is for hunting a fault, not for every day.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from headrace.core.errors import OperatorError
from headrace.core.values import value_class
from headrace.node.metadata_plane import Publish, WriteSnapshot

if TYPE_CHECKING:
    from headrace.config.node_config import NodeConfig
    from headrace.core.listener import Listener
    from headrace.core.ports import Files
    from headrace.node.metadata_plane import MetadataPlane

FORMAT: Final = 1
_OURS: Final = "headrace."


def as_json(value: Any) -> Any:
    """A value of ours (settings, events, messages and what they are made of) in JSON. Raises TypeError for another one."""
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    kind = type(value)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if isinstance(value, Enum):
        return {"enum": name, "name": value.name}
    if isinstance(value, bytes | bytearray | memoryview):
        data = {"bytes": b64encode(value).decode()}
        return data if kind in (bytes, bytearray, memoryview) else {**data, "kind": name}
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return {"tuple": name, "of": [as_json(each) for each in value]}
        return [as_json(each) for each in value]
    if is_dataclass(value):
        return {"object": name, "of": {one.name: as_json(getattr(value, one.name)) for one in fields(value)}}
    if isinstance(value, list):
        return {"list": [as_json(each) for each in value]}
    if isinstance(value, Mapping):
        return {"map": [[as_json(key), as_json(each)] for key, each in value.items()]}
    raise TypeError(f"{name} cannot stand in a journal")


def from_json(data: Any) -> Any:
    """The value again. Raises ValueError for what `as_json` never writes; makes nothing but values of this package."""
    if isinstance(data, list):
        return tuple(from_json(each) for each in data)
    if not isinstance(data, dict):
        return data
    if "bytes" in data:
        raw = b64decode(data["bytes"])
        return _class(data["kind"], bytes)(raw) if "kind" in data else raw
    if "enum" in data:
        return _class(data["enum"], Enum)[data["name"]]
    if "tuple" in data:
        return _class(data["tuple"], tuple)(*(from_json(each) for each in data["of"]))
    if "object" in data:
        found = _class(data["object"], object)
        if not is_dataclass(found):
            raise ValueError(f"{data['object']} is no value")
        made: Any = found
        return made(**{name: from_json(each) for name, each in data["of"].items()})
    if "list" in data:
        return [from_json(each) for each in data["list"]]
    if "map" in data:
        return {from_json(key): from_json(each) for key, each in data["map"]}
    raise ValueError(f"not a value of a journal: {sorted(data)}")


def _class(name: str, base: type) -> Any:
    module, _, path = name.partition(":")
    if not module.startswith(_OURS) or "." in path:
        raise ValueError(f"{name} is not of this package")
    try:
        found = getattr(import_module(module), path, None)
    except ImportError:
        raise ValueError(f"{name} is not known to this version") from None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ValueError(f"{name} is no such value")
    return found


def effects_digest(effects: Iterable[object]) -> int:
    """A number for a list of effects; equal in every process. Of an image, only how far it goes counts."""
    digest = 0
    for effect in effects:
        match effect:
            case Publish():
                text = f"publish {effect.delta.image.provenance}"
            case WriteSnapshot():
                text = f"snapshot {effect.job.snapshot_id}"
            case _:
                text = repr(effect)
        digest = crc32(text.encode(), digest)
    return digest


@value_class
class JournalStart:
    """What a node was when its journal began: its settings, the listeners as bound, the seed of the chance that its metadata side has."""

    config: NodeConfig
    bound: tuple[Listener, ...]
    host_name: str
    seed: int
    wall_ms: int


class Journal:
    """Writes the lines. `write` is given text with its line break; it may fail without harm to the node."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def begin(self, start: JournalStart, files: Files) -> None:
        """The first line, before the metadata log is opened."""
        found = dict(_tree(files, start.config.metadata_log_dir, ""))
        self._line(
            {
                "format": FORMAT,
                "start": as_json(start),
                "files": {path: b64encode(data).decode() for path, data in sorted(found.items())},
            }
        )

    def watch(self, plane: MetadataPlane) -> None:
        """From now on, note what the plane takes."""
        start, step = plane.start, plane.step
        is_starting = False

        def started(now_ms: int) -> Any:
            nonlocal is_starting
            is_starting = True
            effects = start(now_ms)
            is_starting = False
            self._line({"begin": now_ms, "effects": effects_digest(effects)})
            return effects

        def stepped(event: Any) -> Any:
            if is_starting:
                return step(event)  # a part of the start
            noted = as_json(event)
            effects = step(event)
            self._line({"event": noted, "effects": effects_digest(effects)})
            return effects

        plane.start = started  # type: ignore[method-assign]
        plane.step = stepped  # type: ignore[method-assign]

    def _line(self, data: Mapping[str, Any]) -> None:
        self._write(json.dumps(data, separators=(",", ":")) + "\n")


def _tree(files: Files, directory: str, below: str) -> Iterable[tuple[str, bytes]]:
    for name in files.listdir(f"{directory}/{below}".rstrip("/")):
        path = f"{below}/{name}".lstrip("/")
        found = files.stat(f"{directory}/{path}")
        if found is None or (found.is_directory and below == "" and not name.startswith("__cluster_metadata")):
            continue
        if found.is_directory:
            yield from _tree(files, directory, path)
        elif name != ".lock":
            yield path, files.read_file(f"{directory}/{path}") or b""


def read_journal(lines: Iterable[str], *, path: str) -> Iterable[dict[str, Any]]:
    """The lines of a journal; a last one that is cut off is left out. Raises OperatorError for another file."""
    is_first = True
    for number, line in enumerate(lines, 1):
        try:
            data = json.loads(line)
        except ValueError:
            if is_first or line.endswith("\n"):
                raise OperatorError(f"{path} is no journal: line {number} is not JSON") from None
            return
        if is_first and (not isinstance(data, dict) or data.get("format") != FORMAT):
            raise OperatorError(f"{path} is no journal of this version: its first line does not say format {FORMAT}")
        is_first = False
        yield data
