"""Filesystems of URLs, reached in bounded time or given up with one error."""

from __future__ import annotations

import datetime
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pa_fs

from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.offline.episode import DataError

T = TypeVar("T")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LIMIT_S = 30.0
_CONNECT_S, _REQUEST_S = 10, 30
_MOST_SAID = 400  # letters of an error that holds a dump of its request
# Keys come from the environment, as the tools of these stores read them: configs are written down.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "s3": ("anonymous", "endpoint_override", "region", "scheme"),
    "gs": ("anonymous", "endpoint_override", "scheme"),
}


def is_url(text: str) -> bool:
    """Return whether it is a URL, not a path."""
    return _URL.match(text) is not None


def filesystem_of(
    url: str, options: Mapping[str, Any] | None = None, limit: float = _LIMIT_S
) -> tuple[pa_fs.FileSystem | None, str]:
    """Return the filesystem of a URL, None for the local one, and the path within it.

    Args:
        url: Such as `s3://bucket/folder`, `gs://…` or `file:///folder`.
        options: Of the filesystem: `region`, `endpoint_override`, `scheme` and `anonymous` of S3.
        limit: Seconds after which it is given up.

    Raises:
        DataError: if there is no such filesystem, or it is not reached.
        ConfigError: for an option that it does not have.
    """
    parts = urlsplit(url)
    scheme, given = parts.scheme.lower(), dict(options or {})
    if scheme == "gcs":
        scheme = "gs"
    known = _OPTIONS.get(scheme, ())
    for name in given:
        if name not in known:
            raise ConfigError(
                f"the filesystem option {name!r} is not known for {scheme}://; known: "
                f"{list(known)}{suggestion(name, known)}"
            )
    if scheme == "file":
        return None, unquote(parts.path)
    path = (parts.netloc + parts.path).rstrip("/")
    made: Callable[[], tuple[pa_fs.FileSystem, str]]
    if scheme == "s3" and not parts.query:

        def made() -> tuple[pa_fs.FileSystem, str]:
            return _s3(parts.netloc, given), path

    elif scheme == "gs" and not parts.query:

        def made() -> tuple[pa_fs.FileSystem, str]:
            patience = datetime.timedelta(seconds=_CONNECT_S)
            return pa_fs.GcsFileSystem(retry_time_limit=patience, **given), path

    else:

        def made() -> tuple[pa_fs.FileSystem, str]:
            found: tuple[pa_fs.FileSystem, str] = pa_fs.FileSystem.from_uri(url)
            return found

    return within(limit, url, made)


def within(limit: float, what: str, call: Callable[[], T]) -> T:
    """Return what a call to a remote place gives.

    Args:
        limit: Seconds after which it is given up; its thread is left to itself.
        what: What is asked for, for messages.
        call: The call.

    Raises:
        DataError: if it fails, or takes longer.
    """
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="reach a filesystem", daemon=True)
    thread.start()
    thread.join(limit)
    if failed and not isinstance(failed[0], (OSError, ValueError, RuntimeError)):
        raise failed[0]
    if failed:
        raise DataError(f"{what} cannot be reached: {str(failed[0])[:_MOST_SAID]}") from None
    if not done:
        raise DataError(f"{what} cannot be reached: no answer within {limit:g} s")
    return done[0]


def _s3(bucket: str, given: dict[str, Any]) -> pa_fs.FileSystem:
    region = given.pop("region", None)
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and "endpoint_override" not in given:
        region = pa_fs.resolve_s3_region(bucket)
    return pa_fs.S3FileSystem(
        region=region or "us-east-1",
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=pa_fs.AwsStandardS3RetryStrategy(max_attempts=2),
        **given,
    )
