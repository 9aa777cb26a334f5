"""What is wrong with a spec's `record` is found before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.spec.recorded_data import EPISODES
from experiments.spec.schema import SweepSpec
from experiments.sweep.config_checks import checked_stop
from experiments.sweep.env_checks import problem_of
from search_spaces.documents import Document, KeyPath
from trainables.registry import get_algorithm


def check_record(document: Document, spec: SweepSpec) -> None:
    """Check who plays in `record`, and where.

    Raises:
        SpecError: It names no algorithm or environment, or settings that are not allowed.
    """
    section = spec.record
    if section is None:
        return
    if spec.config.get("input_") is None and "input_" not in spec.search_space:
        raise document.error(
            ("record",), f"record: {spec.trainable} has no setting input_ that would read the data"
        )
    if section.train is None:
        if section.env is None:
            raise document.error(
                ("record",),
                "record: it needs `train`, the policy that plays, or `env` for random actions",
            )
        _try_env(document, spec, ("record", "env"), {"env": section.env})
        return
    expert, place = section.train, ("record", "train")
    try:
        trainable = get_algorithm(expert.trainable)
    except ValueError as error:
        raise document.error((*place, "trainable"), f"record.train: {error}") from None
    try:
        config = trainable.config_class.from_dict(expert.config)
        config.validate()
    except ValueError as error:
        raise document.error((*place, "config"), f"record.train.config: {error}") from None
    if not config.needs_env:
        raise document.error(
            place, f"record.train: {expert.trainable} learns from data, which are still to be made"
        )
    if config.env is None:
        raise document.error((*place, "config"), "record.train.config.env is missing")
    if config.is_multi_agent() and (section.epsilon or section.random_share):
        raise document.error(
            ("record",),
            "record: epsilon and random_share are not possible with several policies; allowed: 0",
        )
    if config.num_env_runners or config.num_learners or config.evaluation_num_env_runners:
        raise document.error(
            (*place, "config"),
            "record.train.config: the policy is trained before Ray runs, in one process; allowed: "
            "num_env_runners, num_learners and evaluation_num_env_runners 0",
        )
    expert.stop = checked_stop(document, place, trainable, in_env=True)
    _try_env(document, spec, (*place, "config", "env"), config.to_dict())
    if section.env is not None:
        _try_env(document, spec, ("record", "env"), {**config.to_dict(), "env": section.env})


def _try_env(document: Document, spec: SweepSpec, place: KeyPath, config: dict[str, Any]) -> None:
    """Try an environment in which data are to be recorded, on this machine, unless they are."""
    assert spec.record is not None and spec.record.folder is not None
    if (Path(spec.record.folder) / EPISODES).is_dir():
        return
    problem = problem_of(config)
    if problem is not None:
        raise document.error(place, f"{'.'.join(map(str, place))}: {problem}")
