"""Servers for this machine's browsers only: on loopback, under a loopback name."""

from __future__ import annotations

import re
import socketserver
from typing import TypeVar

from experiments.errors import ExperimentError

HOST = "127.0.0.1"
_LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)

Server = TypeVar("Server", bound=socketserver.TCPServer)


def is_local(host: str | None) -> bool:
    """Tell whether a request's Host header names this machine.

    A page of a foreign site whose name was pointed at 127.0.0.1 (DNS rebinding) sends its own name.
    The port may be another one: that of a tunnel.
    """
    return host is not None and _LOCAL_HOST.fullmatch(host.strip()) is not None


def listening(
    server: type[Server], port: int, handler: type[socketserver.BaseRequestHandler]
) -> Server:
    """Return a server that listens on loopback.

    Args:
        server: Its class.
        port: The port; 0 takes a free one.
        handler: Answers a request.

    Raises:
        ExperimentError: The port is taken, or may not be used.
    """
    try:
        return server((HOST, port), handler)
    except OSError as error:
        raise ExperimentError(
            f"port {port} on {HOST} cannot be used: {error.strerror}; choose one with --port"
        ) from None
