"""The stored credential that an `--add-scram` argument describes (KIP-900).

`SCRAM-SHA-256=[name=alice,password=secret]`, with `iterations`, `salt` and `saltedpassword` (base64) if wanted. The keys are those
of RFC 5802.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from binascii import Error as BadBase64
from random import SystemRandom

from headrace.core.errors import OperatorError
from headrace.metadata.image import ScramCredential

MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16_384
SALT_BYTES = 24
KEYS = ("name", "password", "iterations", "salt", "saltedpassword")


def parse_scram(text: str, rng: SystemRandom) -> ScramCredential:
    """The credential. Raises OperatorError: says what is missing or wrong."""
    mechanism, equals, rest = text.partition("=")
    if not equals:
        raise OperatorError(f"Failed to find equals sign in SCRAM argument '{text}'")
    if mechanism not in MECHANISMS:
        raise OperatorError(f"The add-scram mechanism {mechanism} is not supported.")
    number, digest = MECHANISMS[mechanism]
    given = _arguments(rest, text)
    if not given.get("name"):
        raise OperatorError("You must supply 'name' to add-scram")
    if ("password" in given) == ("saltedpassword" in given):
        raise OperatorError(
            "You must only supply one of 'password' or 'saltedpassword' to add-scram"
            if "password" in given
            else "You must supply one of 'password' or 'saltedpassword' to add-scram"
        )
    iterations = _iterations(given.get("iterations", str(MIN_ITERATIONS)), mechanism)
    if "saltedpassword" in given and "salt" not in given:
        raise OperatorError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salt = _base64("salt", given["salt"]) if "salt" in given else rng.randbytes(SALT_BYTES)
    if "password" in given:
        salted = hashlib.pbkdf2_hmac(digest, given["password"].encode(), salt, iterations)
    else:
        salted = _base64("saltedpassword", given["saltedpassword"])
    client_key = hmac.digest(salted, b"Client Key", digest)
    return ScramCredential(
        name=given["name"],
        mechanism=number,
        salt=salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", digest),
        iterations=iterations,
    )


def _arguments(text: str, whole: str) -> dict[str, str]:
    if not (text.startswith("[") and text.endswith("]")):
        raise OperatorError(f"Expected '[' and ']' around the settings of SCRAM argument '{whole}'")
    found: dict[str, str] = {}
    for pair in text[1:-1].split(","):
        key, equals, value = pair.strip().partition("=")
        if not equals or key not in KEYS:
            raise OperatorError(f"'{key}' is not a setting of add-scram; valid are {', '.join(KEYS)}")
        found[key] = value.removeprefix('"').removesuffix('"')
    return found


def _iterations(text: str, mechanism: str) -> int:
    if not text.isdecimal():
        raise OperatorError(f"The 'iterations' value {text} of add-scram is not a number")
    count, name = int(text), mechanism.replace("-", "_")
    if count < MIN_ITERATIONS:
        raise OperatorError(f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {name}")
    if count > MAX_ITERATIONS:
        raise OperatorError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {name}")
    return count


def _base64(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (BadBase64, ValueError) as error:
        raise OperatorError(f"The '{name}' of add-scram is not base64: {error}") from error
