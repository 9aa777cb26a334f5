"""The sweep of one trial that `tunescape train` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from experiments.errors import SpecError
from experiments.spec.overrides import apply_overrides
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import check_document
from experiments.sweep.trainable_checks import ends_by_itself
from search_spaces.documents import Document, parse


def single_trial_spec(
    algo: str,
    env: str | None,
    *,
    stop: str = "{}",
    config: str = "{}",
    framework: str | None = None,
    name: str | None = None,
    storage: str | None = None,
    address: str | None = None,
    checkpoint_freq: int | None = None,
    overrides: Iterable[str] = (),
    first: Callable[[Document], None] | None = None,
) -> SweepSpec:
    """Return the spec of a single training run.

    Args:
        algo: An algorithm's name.
        env: The environment; None if the config names it.
        stop: Stop criteria, as JSON or YAML text.
        config: Settings, as JSON or YAML text. A `grid_search` in it makes several trials.
        framework: `torch`, or an error that says why.
        name: The sweep's name; by default the algorithm, the environment and the time.
        storage: The folder that holds the sweep's folder.
        address: A Ray cluster to join.
        checkpoint_freq: Iterations between checkpoints.
        overrides: Further assignments, as of `tunescape run --set`.
        first: Called with all of this before any of it is checked; may raise.

    Raises:
        SpecError: Something is wrong with one of them.
    """
    settings = mapping(config, "--config")
    if env is not None:
        settings["env"] = env
    if framework is not None:
        settings["framework"] = framework
    data: dict[str, Any] = {
        "name": name or _name(algo, settings.get("env")),
        "trainable": algo,
        "config": settings,
        "stop": mapping(stop, "--stop"),
    }
    if storage is not None:
        data["storage"] = storage
    if address is not None:
        data["resources"] = {"address": address}
    if checkpoint_freq is not None:
        data["checkpoint"] = {"frequency": checkpoint_freq}
    document = Document(data, "command line")
    apply_overrides(document, overrides)
    if first is not None:
        first(document)
    spec = check_document(document)
    require_end(spec)
    return spec


def require_end(spec: SweepSpec) -> None:
    """Raise `SpecError` if nothing would end the spec's trials."""
    if not ends_by_itself(spec):
        raise SpecError("--stop is missing: a run without a stop criterion never ends")


def mapping(text: str, option: str) -> dict[str, Any]:
    """Return the value of an option that takes a mapping, as JSON or YAML text."""
    value, _ = parse(text, option)
    if not isinstance(value, dict):
        raise SpecError(f"{option} {text}: expected a mapping such as '{{\"key\": 1}}'")
    return value


def _name(algo: str, env: object) -> str:
    parts = [algo, *([] if env is None else [_plain(str(env))])]
    return "_".join([*parts, f"{datetime.now():%Y-%m-%d_%H-%M-%S}"]).replace(":", "-")


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "_-" else "-" for c in text).strip("-")
