"""Specs from URLs: `tunescape train file https://…/cartpole-ppo.yaml`.

What comes from a URL is somebody else's: what it may set is a list
(`experiments.spec.remote_checks`), and it cannot take in files or environment variables of this
machine.
"""

from __future__ import annotations

import http.client
import threading
import urllib.error
import urllib.request
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from experiments.spec.compose import KEYWORDS
from search_spaces.documents import Document, KeyPath, SpecError, parse

MAX_BYTES = 1_000_000
TIMEOUT_S = 20.0
_SCHEMES = ("http", "https")


def is_url(path: object) -> bool:
    """Tell whether a spec is named by a URL, of whatever scheme."""
    return "://" in str(path)


def load_remote_document(url: str) -> Document:
    """Fetch and parse a YAML file.

    Raises:
        SpecError: The URL is not http(s), cannot be read within `TIMEOUT_S` seconds and
            `MAX_BYTES` bytes, leads to another scheme, or holds something else than a spec.
    """
    data, lines = parse(_fetch(url), url)
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise SpecError(f"{url}: holds {found}; expected a mapping of keys to values")
    document = Document(data, url, lines)
    _refuse_local(document, (), data)
    return document


def name_of(url: str) -> str:
    """Return the file's name in the URL, without its suffix."""
    name = PurePosixPath(unquote(urlsplit(url).path)).stem
    return "".join(c if c.isalnum() or c in "_.+-" else "-" for c in name).strip("-.+") or "sweep"


def _fetch(url: str) -> str:
    """Return the text at the URL. The limit of time covers everything, also a server that drips."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SpecError(f"{url}: is not a URL: {error}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise SpecError(f"{url}: only http:// and https:// URLs can be read")
    if parts.username is not None or parts.password is not None:
        raise SpecError(f"{parts.hostname}: a URL with a user name or password is not supported")
    answer: list[bytes | Exception] = []

    def read() -> None:
        try:
            with _opener().open(url, timeout=TIMEOUT_S) as response:
                _refuse_web_page(url, response)
                answer.append(response.read(MAX_BYTES + 1))
        except Exception as error:  # it is raised again below
            answer.append(error)

    thread = threading.Thread(target=read, name="fetch-spec", daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    if not answer:
        raise SpecError(f"{url}: cannot be read within {TIMEOUT_S:g} seconds")
    content = answer[0]
    if isinstance(content, Exception):
        raise _named(url, content) from None
    if len(content) > MAX_BYTES:
        raise SpecError(f"{url}: has more than {MAX_BYTES:,} bytes; that is no spec")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{url}: is not text in UTF-8: {error}") from None


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener that knows HTTP and nothing else: no files, no FTP, no data URLs."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "tunescape"), ("Accept", "text/plain, */*")]
    return opener


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to the same scheme, or from http to https."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        new = urlsplit(newurl).scheme
        if new not in _SCHEMES or (req.type == "https" and new != "https"):
            if fp is not None:
                fp.close()
            raise SpecError(f"{req.full_url}: leads to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _refuse_web_page(url: str, response: Any) -> None:
    if response.headers.get_content_type() == "text/html":
        raise SpecError(f"{url}: is a web page, not a YAML file; take the address of the raw file")


def _named(url: str, error: Exception) -> SpecError:
    if isinstance(error, SpecError):
        return error
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return SpecError(f"{url}: cannot be read: {error.code} {error.reason}")
    if isinstance(error, (urllib.error.URLError, http.client.HTTPException, OSError)):
        reason = getattr(error, "reason", None) or error
        return SpecError(f"{url}: cannot be read: {reason}")
    return SpecError(f"{url}: cannot be read: {type(error).__name__}: {error}")


def _refuse_local(document: Document, path: KeyPath, value: Any) -> None:
    """No reference to a file or an environment variable of this machine."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in KEYWORDS and len(path) < 2:
                raise document.error(
                    (*path, key), f"{key}: a spec from a URL cannot take in other files"
                )
            _refuse_local(document, (*path, key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_local(document, (*path, index), item)
    elif isinstance(value, str) and "${env:" in value:
        raise document.error(path, f"{value!r}: a spec from a URL cannot read the environment")
