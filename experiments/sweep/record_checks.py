"""What is wrong with a spec's `record` is found before anything runs."""

from __future__ import annotations

from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document
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
                "record: who plays where? It needs `train`, or `env` for random actions",
            )
        return
    expert, place = section.train, ("record", "train")
    try:
        config_class = get_algorithm(expert.trainable).config_class
    except ValueError as error:
        raise document.error((*place, "trainable"), f"record.train: {error}") from None
    try:
        config = config_class.from_dict(expert.config)
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
