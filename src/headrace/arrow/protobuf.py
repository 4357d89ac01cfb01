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

from headrace.core.errors import OperatorError

_FILE: Final = "headrace_value.proto"
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
            self._known[indexes] = self._handlers.get_for_message(self._message(indexes))
        return self._known[indexes]

    def _message(self, indexes: Indexes) -> Any:
        try:
            found = self._file.message_types_by_name[self._order[indexes[0]]]
            for each in indexes[1:]:
                found = found.nested_types[each]
        except (IndexError, KeyError):
            raise OperatorError(f"the Protobuf schema has no message {list(indexes)}") from None
        return found


def _described(text: str, referenced: Mapping[str, str]) -> Any:
    """The descriptors of the file and of all that it imports, itself last. Raises OperatorError."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    serialized = _deserialized(text)
    if serialized is not None:
        found = FileDescriptorSet()
        _add_with_imports(found, serialized, referenced)
        return found
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, each in {**referenced, _FILE: text}.items():
            file = (folder / path).resolve()
            if not file.is_relative_to(folder.resolve()):
                raise OperatorError(f"the Protobuf schema imports {path}, which is no name of a file")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(each)
        problem = _compile(folder)
        if problem is not None:
            raise OperatorError(f"the Protobuf schema cannot be compiled: {problem}")
        found = FileDescriptorSet()
        found.ParseFromString((folder / "described").read_bytes())
    return found


def _deserialized(text: str) -> Any:
    """The descriptor that the text is in base64, as Python's serializer registers it; None where it is a file's text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _add_with_imports(found: Any, file: Any, referenced: Mapping[str, str]) -> None:
    """Add the descriptor to the set, behind those that it imports. Raises OperatorError for an import that is not there."""
    for name in file.dependency:
        if any(each.name == name for each in found.file):
            continue
        imported = _deserialized(referenced[name]) if name in referenced else _well_known(name)
        if imported is None:
            raise OperatorError(f"the Protobuf schema imports {name}, which the registry does not have with it")
        imported.name = name
        _add_with_imports(found, imported, referenced)
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


def _compile(folder: Path) -> str | None:
    """What the compiler says against the file, None if nothing."""
    import grpc_tools

    include = Path(grpc_tools.__file__).parent / "_proto"
    done = subprocess.run(
        [
            sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{include}", "--include_imports",
            f"--descriptor_set_out={folder / 'described'}", _FILE,
        ],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    return " ".join(done.stderr.replace(str(folder), "").split()) or "no reason given" if done.returncode else None
