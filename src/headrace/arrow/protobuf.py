"""Values of one Protobuf file as Arrow columns, decoded by compiled code without an object for each record (ptars).

The file is the text that the registry has, compiled by Protobuf's own compiler, or a serialized descriptor in base64.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from headrace.arrow.schema_bounds import TypeCount
from headrace.core.errors import OperatorError

_FILE: Final = "headrace_value.proto"
_LONGEST_PART_BYTES: Final = 255
"""Of a file's name, on any usual file system."""
_LONGEST_NAME_BYTES: Final = 1_000
_MOST_IMPORTS: Final = 100
"""Files that import one another in a row."""
Indexes = tuple[int, ...]
"""Which message of the file: its place at the top, then within that message, and so on."""


class ProtobufSchema:
    """A Protobuf file: the Arrow types of its messages, and decoders of values that it wrote."""

    def __init__(self, text: str, referenced: Mapping[str, str] | None = None) -> None:
        """`referenced` are the files that it imports by their names. Raises OperatorError for a file that cannot be compiled."""
        from google.protobuf import descriptor_pool
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from ptars import HandlerPool, PtarsConfig

        files = _described(text, referenced or {})
        pool = descriptor_pool.DescriptorPool()
        try:
            for each in files.file:
                pool.Add(each)
            self._file = pool.FindFileByName(files.file[-1].name)
        except (TypeError, KeyError) as error:
            raise OperatorError(f"the Protobuf schema cannot be used: {error}") from None
        assert isinstance(files, FileDescriptorSet)
        config = PtarsConfig(
            enum_repr="string", list_value_name="element", timestamp_unit="us", time_unit="us", duration_unit="us"
        )
        self._order = [each.name for each in files.file[-1].message_type]
        self._handlers = HandlerPool([self._file], config=config)
        self._known: dict[Indexes, Any] = {}

    def message_type(self, indexes: Indexes = (0,)) -> pa.StructType:
        """The Arrow type of a message, by default the first. Raises OperatorError where there is none."""
        return pa.struct(list(self._handler(indexes).schema()))

    def decode(self, values: pa.Array, indexes: Indexes) -> pa.Array:
        """The values as structs. Raises ValueError where one does not fit, OperatorError where the file has no such message."""
        return self._handler(indexes).array_to_record_batch(values).to_struct_array()

    def _handler(self, indexes: Indexes) -> Any:
        if indexes not in self._known:
            message = self._message(indexes)
            _count_types(message, TypeCount("the Protobuf schema"), ())
            self._known[indexes] = self._handlers.get_for_message(message)
        return self._known[indexes]

    def _message(self, indexes: Indexes) -> Any:
        try:
            found = self._file.message_types_by_name[self._order[indexes[0]]]
            for each in indexes[1:]:
                found = found.nested_types[each]
        except (IndexError, KeyError):
            raise OperatorError(f"the Protobuf schema has no message {list(indexes)}") from None
        return found


def _count_types(message: Any, count: TypeCount, within: tuple[str, ...]) -> None:
    """Count the columns of a message, which is a column of bytes where it is within itself. Raises OperatorError for too many."""
    for field in message.fields:
        count.add()
        inner = field.message_type
        if inner is not None and inner.full_name != message.full_name and inner.full_name not in within:
            _count_types(inner, count, (*within, message.full_name))


def _described(text: str, referenced: Mapping[str, str]) -> Any:
    """The descriptors of the file and of all that it imports, itself last. Raises OperatorError."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    serialized = _deserialized(text)
    if serialized is not None:
        found = FileDescriptorSet()
        _add_with_imports(found, serialized, referenced, 0)
        return found
    files = {**referenced, _FILE: text}
    _check_names(files)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        for path, each in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(each.encode(errors="replace"))
        described = Path(name) / "described"
        problem = _compile(folder, described)
        if problem is not None:
            raise OperatorError(f"the Protobuf schema cannot be compiled: {problem}")
        found = FileDescriptorSet()
        found.ParseFromString(described.read_bytes())
    return found


def _check_names(files: Mapping[str, str]) -> None:
    """Raise OperatorError for names that cannot all be files of one folder: whoever registers schemas chooses them."""
    folders = {path[:at] for path in files for at, each in enumerate(path) if each == "/"}
    for path in files:
        parts = path.split("/")
        is_name = not any(
            part in ("", ".", "..") or len(part.encode(errors="replace")) > _LONGEST_PART_BYTES for part in parts
        )
        is_long = len(path.encode(errors="replace")) > _LONGEST_NAME_BYTES
        if not is_name or is_long or not path.isprintable() or "\\" in path or path in folders:
            raise OperatorError(f"the Protobuf schema imports {path[:100]!r}, which is no name of a file")


def _deserialized(text: str) -> Any:
    """The descriptor that the text is in base64, as Python's serializer registers it; None where it is a file's text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _add_with_imports(found: Any, file: Any, referenced: Mapping[str, str], depth: int) -> None:
    """Add the descriptor to the set, behind those that it imports. Raises OperatorError for an import that is not there, or imports itself."""
    if depth > _MOST_IMPORTS:
        raise OperatorError("the Protobuf schema imports itself, or files that import files without end")
    for name in file.dependency:
        if any(each.name == name for each in found.file):
            continue
        imported = _deserialized(referenced[name]) if name in referenced else _well_known(name)
        if imported is None:
            raise OperatorError(f"the Protobuf schema imports {name}, which the registry does not have with it")
        imported.name = name
        _add_with_imports(found, imported, referenced, depth + 1)
    if not any(each.name == file.name for each in found.file):
        found.file.append(file)


def _well_known(name: str) -> Any:
    """The descriptor of a file that comes with Protobuf, or None."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if not name.startswith("google/protobuf/"):
        return None
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _compile(folder: Path, described: Path) -> str | None:
    """What the compiler says against the file, None if nothing. It is a module of Python, which must not look for itself among files that others named (`-P`)."""
    import grpc_tools

    include = Path(grpc_tools.__file__).parent / "_proto"
    done = subprocess.run(
        [
            sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{include}", "--include_imports",
            f"--descriptor_set_out={described}", str(folder / _FILE),
        ],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    return " ".join(done.stderr.replace(f"{folder}/", "").split()) or "no reason given" if done.returncode else None
