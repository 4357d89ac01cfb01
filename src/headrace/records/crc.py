"""CRC-32C, as record batches and snapshots use it: the native function of the `crc32c` package.

The package's own `__init__` reads its version out of the installed metadata, which imports some sixty modules and costs every start of
a node 15 to 40 ms. So the native module in it is loaded by itself; where it cannot be found that way, the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

from headrace.core.ports import BytesLike


def _native() -> Callable[[BytesLike], int]:
    package = find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("_crc32c", list(places)) if places else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as packaged

        return cast("Callable[[BytesLike], int]", packaged)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Callable[[BytesLike], int]", module.crc32c)


crc32c = _native()
