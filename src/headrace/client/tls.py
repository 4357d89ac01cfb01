"""The context that the standard library makes of TLS settings."""

from __future__ import annotations

import ssl
import tempfile
from typing import Final

from headrace.client.tls_settings import TlsSettings
from headrace.core.errors import OperatorError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """The settings as the standard library wants them. Raises OperatorError for files and texts that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=settings.ca_path, cadata=settings.ca_text)
        context.minimum_version = _VERSIONS[settings.versions[0]]
        context.maximum_version = _VERSIONS[settings.versions[-1]]
        password = settings.key_password or ""  # never None: OpenSSL would ask the terminal
        if settings.certificate_path:
            context.load_cert_chain(settings.certificate_path, settings.key_path, password)
        elif settings.key_text is not None:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # readable by its owner only
                file.write(f"{settings.key_text.strip()}\n{(settings.certificate_text or '').strip()}\n")
                file.flush()
                context.load_cert_chain(file.name, None, password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise OperatorError(f"the ssl.* settings cannot be used: {_reason(error)}") from None
    context.check_hostname = settings.is_host_checked
    return context


def _reason(error: Exception) -> str:
    """OpenSSL's words, or the file and what is wrong with it."""
    if isinstance(error, ssl.SSLError):
        return error.reason or "no certificate or key of PEM is in it"
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
