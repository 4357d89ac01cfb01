"""Listeners and connections: bytes in, bytes out, back-pressure and limits. Nothing is decided here."""
