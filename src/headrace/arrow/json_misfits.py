"""JSON texts that are no row of a schema for sure, as Python's reader tells one by one.

Arrow's reader names no row that it stumbles over, and alone a value takes it a hundred times as long as among others. Whoever halves what does not fit
asks here first: what is told is what Arrow's reader refuses too, and what is not told may still be refused by it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Check: TypeAlias = Callable[[Any], bool]
"""Whether a value that is not null does not fit."""
_NESTED: Final = (bool, list, dict)


def misfits(values: pa.Array, schema: pa.Schema) -> npt.NDArray[np.bool_]:
    """Which of the values (binary, none null) do not fit for sure."""
    check = _struct_check(list(schema))
    return np.array([_is_misfit(each, check) for each in values.to_pylist()], dtype=np.bool_)


def _is_misfit(value: bytes, check: _Check) -> bool:
    try:
        found = json.loads(value.decode())
    except (UnicodeDecodeError, json.JSONDecodeError):
        return True
    except (ValueError, RecursionError):
        return False  # a number of thousands of digits, or nested deep: that may be in a field that nobody reads
    return found is not None and check(found)


def _struct_check(fields: list[pa.Field]) -> _Check:
    checks = {each.name: _check_of(each.type) for each in fields}

    def is_misfit(value: Any) -> bool:
        if type(value) is not dict:
            return True
        return any(check(found) for name, check in checks.items() if (found := value.get(name)) is not None)

    return is_misfit


def _check_of(kind: pa.DataType) -> _Check:
    """The check of a column; of types that are written in several ways only what is none of these is told."""
    if pa.types.is_struct(kind):
        return _struct_check([kind.field(at) for at in range(kind.num_fields)])
    if pa.types.is_list(kind):
        of_element = _check_of(kind.value_type)
        return lambda value: type(value) is not list or any(each is not None and of_element(each) for each in value)
    if pa.types.is_signed_integer(kind):
        low, high = -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
        return lambda value: type(value) is not int or not low <= value <= high
    if pa.types.is_boolean(kind):
        return lambda value: type(value) is not bool
    if pa.types.is_floating(kind):
        return lambda value: type(value) not in (int, float)
    if pa.types.is_string(kind):
        return lambda value: type(value) is not str
    return lambda value: type(value) in _NESTED
