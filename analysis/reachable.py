"""Whether anybody answers at an address: known in seconds, where clients retry for minutes."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from analysis.credentials import scrubbed, without_credentials

TRACKING_TIMEOUT_S = 4.0
_DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}


def check_tracking(tracking_uri: str) -> str | None:
    """Say why a tracking server cannot be used; None if it can. Takes a few seconds at most."""
    reason = why_unreachable(tracking_uri)
    if reason is None:
        return None
    return f"the MLflow tracking server {scrubbed(tracking_uri)} cannot be reached: {reason}"


def why_unreachable(uri: str) -> str | None:
    """Say why nobody answers at a URI, or None. Takes some seconds at most."""
    parts = urlsplit(uri)
    try:
        if parts.scheme in ("http", "https"):
            health = without_credentials(uri).rstrip("/") + "/health"
            with urllib.request.urlopen(health, timeout=TRACKING_TIMEOUT_S):
                return None
        host, port = parts.hostname, parts.port
        if host is None:
            return None
        scheme = parts.scheme.partition("+")[0]
        if port or scheme in _DATABASE_PORTS:
            address = (host, port or _DATABASE_PORTS[scheme])
            socket.create_connection(address, timeout=TRACKING_TIMEOUT_S).close()
    except urllib.error.HTTPError:
        return None  # somebody answers: whether we may write is MLflow's to say
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", None) or error)
    return None
