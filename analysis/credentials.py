"""Tracking URIs may hold a password: it is used, and never shown or kept."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

_USER_INFO = re.compile(r"(?<=://)[^/\s?#]*@")
_SECRET_QUERY = re.compile(r"(?i)([?&][\w-]*(?:password|passwd|pwd|token|secret)[\w-]*=)[^&\s#]*")


def scrubbed(text: str) -> str:
    """Return a text, such as an error message, with the credentials of every URI in it hidden.

    Example:
        >>> scrubbed("no answer from https://ada:pa55@host/api?token=x&a=1")
        'no answer from https://***@host/api?token=***&a=1'
    """
    return _SECRET_QUERY.sub(r"\g<1>***", _USER_INFO.sub("***@", text))


def without_credentials(uri: str) -> str:
    """Return a URI without user name, password and secret query parameters.

    Example:
        >>> without_credentials("postgresql://ada:pa55@host:5432/runs?sslmode=require&password=x")
        'postgresql://host:5432/runs?sslmode=require'
    """
    parts = urlsplit(uri)
    if "@" not in parts.netloc and not _SECRET_QUERY.search(uri):
        return uri
    query = [
        (key, value)
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _SECRET_QUERY.search(f"?{key}=")
    ]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query), parts.fragment))


def has_secret(uri: str, *, blank: bool = True) -> bool:
    """Tell whether a URI holds a password or a token.

    The user name of a database alone is none; of a web address it may be a token.

    Args:
        uri: The URI.
        blank: Whether an empty password counts.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False  # it is no URI, and refused for that
    user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    if password or (colon and blank):
        return True
    if user and not colon and parts.scheme in ("http", "https"):
        return True
    return any(blank or found[0] != found[1] for found in _SECRET_QUERY.finditer(uri))
