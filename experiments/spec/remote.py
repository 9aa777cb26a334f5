"""Specs from URLs: `tunescape train file https://…/cartpole-ppo.yaml`.

What comes from a URL is somebody else's. It cannot take in files or environment variables of this
machine, and may set numbers and switches anywhere, and text where it is listed here. A text can be
a path, an address or the name of code, so it is refused unless its place or its value is known to
be harmless. Whoever needs more downloads the file, reads it and runs that.
"""

from __future__ import annotations

import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from experiments.spec.compose import KEYWORDS
from experiments.spec.named_loggers import NAMED
from experiments.spec.references import is_at
from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document, KeyPath, SpecError, parse
from search_spaces.domains import is_domain
from search_spaces.loader import known_preset_names, space_names
from search_spaces.space import SearchSpace
from trainables.core.config.reference.compatibility import ALIASES, CONSTANTS
from trainables.core.config.settings import VARIABLES, Settings

MAX_BYTES = 1_000_000
TIMEOUT_S = 20.0
_SCHEMES = ("http", "https")

# Texts outside of `config`, which has its own rules; `*` is any key or place of a list. What the
# schema does not restrict to some words is a label: of a folder in the storage folder, a metric, a
# setting, an MLflow tag.
_TEXTS: tuple[KeyPath, ...] = (
    ("name",),
    ("objective", "*"),
    ("objectives", "*", "*"),
    ("search",),
    ("search", "algorithm"),
    ("search", "sequence"),
    ("scheduler",),
    ("scheduler", "algorithm"),
    ("scheduler", "base"),
    ("scheduler", "mutations", "*"),
    ("scheduler", "time_attr"),
    ("seeds", "parallel"),
    ("loggers", "*"),
    ("mlflow", "experiment_name"),
    ("mlflow", "tags", "*"),
)
# Checked by what they say; the points that are tried first hold values of the space.
_OF_THEIR_OWN = ("trainable", "config", "search_space")
_POINTS: KeyPath = ("search", "points_to_evaluate")
_SCHEDULE: KeyPath = ("scheduler", "schedule")
_ADVICE = (
    "a spec from a URL may not set that: download the file, read it, and run it from there; or set "
    "the key with --set"
)


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
        told = " ".join(str(error.reason).split())  # of a loop, urllib tells it in lines
        return SpecError(f"{url}: cannot be read: {error.code} {told}")
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


def refuse_foreign(document: Document) -> None:
    """Refuse what a spec from a URL may not set, before anything that it names is imported.

    It is a check of each sweep, after its matrix is expanded; `refuse_foreign_values` is the other
    half. What the command line sets may be anything.

    Raises:
        SpecError: A key has a text that is not allowed.
    """
    data = document.data
    trainable = data.get("trainable")
    if isinstance(trainable, str) and ":" in trainable:
        _refuse(document, ("trainable",), trainable)
    space = data.get("search_space")
    base = space.get("base") if isinstance(space, dict) else None
    named: tuple[tuple[KeyPath, Any], ...] = (
        (("search_space",), space),
        (("search_space", "base"), base),
    )
    for path, name in named:
        if isinstance(name, str) and not _is_shipped_space(name):
            _refuse(document, path, name)
    # Keys that are unknown, and their texts, are named by the check that follows.
    others = {key: data[key] for key in SweepSpec.model_fields if key in data}
    for path, text in _texts((), others):
        has_own_rules = path[0] in _OF_THEIR_OWN or path[:2] in (_POINTS, _SCHEDULE)
        is_listed = has_own_rules or any(is_at(path, allowed) for allowed in _TEXTS)
        sends_results = path[0] == "loggers" and text in NAMED
        if sends_results or not is_listed:
            _refuse(document, path, text)


def refuse_foreign_values(
    document: Document,
    config_class: type[Settings] | None,
    spaces: Iterable[tuple[str, SearchSpace]],
) -> None:
    """Refuse settings, fixed or searched, that a spec from a URL may not have.

    Args:
        document: Its `config` has the names as they were written.
        config_class: The algorithm's settings; None: `--set` named a trainable that declares none.
        spaces: Section in which each space is written, and the space.

    Raises:
        SpecError: A setting could name a path or code, or is an environment variable.
    """
    _check_settings(document, ("config",), document.data.get("config"), config_class)
    for section, space in spaces:
        for parameter in space.parameters:
            for value in parameter.domain.probes():
                for key in reversed(parameter.path):
                    value = {key: value}
                place = _place(document, section, parameter.path)
                _check_settings(document, place, value, config_class, written=False)
    scheduler = document.data.get("scheduler")
    points = scheduler.get("schedule") if isinstance(scheduler, dict) else None
    for index, point in enumerate(points if isinstance(points, list) else []):
        if isinstance(point, list) and len(point) == 2:
            _check_settings(document, (*_SCHEDULE, index, 1), point[1], config_class)


def _place(document: Document, section: str, path: tuple[str, ...]) -> KeyPath:
    dotted = (section, ".".join(path))
    return dotted if dotted in document.lines else (section, *path)


def _check_settings(
    document: Document,
    place: KeyPath,
    values: Any,
    settings: type[Settings] | None,
    *,
    written: bool = True,
) -> None:
    """Check a mapping of settings; `written`: whether its keys stand in the document at `place`."""
    if not isinstance(values, Mapping):
        return
    for name, value in values.items():
        canonical = ALIASES.get(str(name), str(name))
        here = (*place, name) if written else place
        if canonical in CONSTANTS:
            continue  # another value than the constant is refused by the algorithm's own check
        inner = settings.settings_inside(canonical) if settings is not None else None
        if inner is not None and isinstance(value, Mapping) and not is_domain(value):
            _check_settings(document, here, value, inner, written=written)
        elif not _is_harmless(settings, canonical, value):
            _refuse(document, here, value)


def _is_harmless(settings: type[Settings] | None, name: str, value: Any) -> bool:
    """Whether a value that passes the setting's check can name no path, no code, no variable."""
    declared = settings.settings().get(name) if settings is not None else None
    if declared is None:  # an older name that stands for several, or an unknown one
        return next(_texts((), value), None) is None
    if declared.name == "env" and isinstance(value, str):
        from trainables.runtime.envs.make import is_name_safe

        return is_name_safe(value)
    # Processes, resources and memory are the sweep's to ask for; it is checked that they are there.
    takes_numbers = declared.risk != VARIABLES and next(_texts((), value), None) is None
    return takes_numbers or declared.is_harmless(value)


def _is_shipped_space(name: str) -> bool:
    return name.partition("/")[0].lower() in space_names() or name in known_preset_names()


def _texts(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    """Whatever is no number, switch or null, in a tree of mappings and lists."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts((*path, key), item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _texts((*path, index), item)
    elif value is not None and not isinstance(value, (bool, int, float)):
        yield path, value


def _refuse(document: Document, path: KeyPath, value: Any) -> None:
    if any(path[:end] in document.settings for end in range(1, len(path) + 1)):
        return
    key = ".".join(map(str, path))
    raise document.error(path, f"{key} = {value!r}: {_ADVICE}")
