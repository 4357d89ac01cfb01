"""The controller that a configuration file describes, for `headrace quorum add-controller`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.client.admin_quorum import VoterEndPoint
from headrace.core.errors import OperatorError
from headrace.core.ids import Uuid
from headrace.core.ports import Files
from headrace.core.values import value_class

_ASK = "Is this a valid controller configuration file?"


@value_class
class NewController:
    """The key and the addresses of a controller that is to be a voter (KIP-853)."""

    node_id: int
    directory_id: Uuid
    end_points: tuple[VoterEndPoint, ...]


def new_controller(properties: Mapping[str, str], files: Files | None = None) -> NewController:
    """The controller whose server.properties these are; its directory must be formatted. Raises OperatorError."""
    if files is None:
        from headrace.storage.os_files import OsFiles

        files = OsFiles()
    node_id = controller_id(properties)
    directory = metadata_directory(properties)
    return NewController(
        node_id=node_id,
        directory_id=directory_id_in(files, directory),
        end_points=controller_end_points(properties),
    )


def controller_id(properties: Mapping[str, str]) -> int:
    """`node.id`. Raises OperatorError: none, negative, or no controller."""
    text = properties.get("node.id")
    if text is None:
        raise OperatorError(f"node.id not found in configuration file. {_ASK}")
    try:
        node_id = int(text.strip())
    except ValueError:
        raise OperatorError(f"node.id={text} in configuration file is no number. {_ASK}") from None
    if node_id < 0:
        raise OperatorError(f"node.id was negative in configuration file. {_ASK}")
    if "controller" not in properties.get("process.roles", ""):
        raise OperatorError(f"process.roles did not contain 'controller' in configuration file. {_ASK}")
    return node_id


def metadata_directory(properties: Mapping[str, str]) -> str:
    """Where the metadata log lies: `metadata.log.dir`, else the first of `log.dirs`. Raises OperatorError."""
    own = properties.get("metadata.log.dir")
    if own is not None:
        return own.strip()
    every = [part.strip() for part in properties.get("log.dirs", "").split(",") if part.strip()]
    if not every:
        raise OperatorError(f"Neither metadata.log.dir nor log.dirs were found. {_ASK}")
    return every[0]


def directory_id_in(files: Files, directory: str) -> Uuid:
    """`directory.id` of `meta.properties`. Raises OperatorError."""
    from headrace.storage.meta_properties import read_meta_properties

    found = read_meta_properties(files, directory) if files.exists(directory) else None
    if found is None:
        raise OperatorError(f"Unable to read meta.properties from {directory}")
    if found.directory_id is None:
        raise OperatorError(f"No directory id found in {directory}")
    return found.directory_id


def controller_end_points(properties: Mapping[str, str]) -> tuple[VoterEndPoint, ...]:
    """The addresses of the controller listeners, advertised ones first. Raises OperatorError."""
    known = {**_listeners(properties.get("listeners", "")), **_listeners(properties.get("advertised.listeners", ""))}
    names = properties.get("controller.listener.names")
    if names is None:
        raise OperatorError(f"controller.listener.names was not found. {_ASK}")
    found: list[VoterEndPoint] = []
    for each in names.split(","):
        name = each.strip().upper()
        if name not in known:
            raise OperatorError(f"Cannot find information about controller listener name: {name}")
        found.append(known[name])
    return tuple(found)


def _listeners(text: str) -> dict[str, VoterEndPoint]:
    found: dict[str, VoterEndPoint] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, slashes, address = entry.partition("://")
        host, colon, port = address.rpartition(":")
        if not slashes or not colon or not port.isdecimal():
            raise OperatorError(f"{entry} is no listener: write NAME://host:port")
        host = host.removeprefix("[").removesuffix("]")
        found[name.upper()] = VoterEndPoint(name=name.upper(), host=host or "localhost", port=int(port))
    return found


def describe_end_points(end_points: Iterable[VoterEndPoint]) -> str:
    """Addresses as kafka-metadata-quorum prints them."""
    return ", ".join(str(each) for each in end_points)
