"""Settings of recorded experience: what is learned from, written and estimated from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.settings import CODE, MEMORY, Settings, setting

InputKey = str | tuple[str, ...] | Callable[..., Any]
"""A source: "sampler", a path, glob, URL or name; several paths as one; what makes a reader."""

SAMPLER = "sampler"
# Columns that may be compressed one by one, by the names that the reference has, too.
COMPRESSIBLE = (
    "obs",
    "new_obs",
    "actions",
    "rewards",
    "terminateds",
    "truncateds",
    "action_logp",
)
OF_DATA = ("input_", "input_config", "actions_in_input_normalized")
"""What `evaluation_config` may say of the data that are evaluated on."""


@dataclass(kw_only=True)
class OfflineSettings(Settings):
    """Settings of recorded experience: what is learned from, what is written beside training."""

    feature: ClassVar[str | None] = "offline"

    input_: str | list[Any] | dict[str, Any] | Callable[..., Any] = setting(
        SAMPLER,
        "offline_data",
        "source of experience: 'sampler', the environment; files, a folder, glob or URL, or a "
        "list of these; 'minari:' and a data set; a name given to register_input; a callable that "
        "gets an IOContext and returns an InputReader; or a dict from these to their shares of a "
        "batch, e.g. {'sampler': 0.4, 'data/*.parquet': 0.6}",
        risk=CODE,
    )
    input_config: dict[str, Any] = setting(
        {},
        "offline_data",
        "how to read data: format ('parquet', 'csv', 'json', 'minari'; default: by file name); "
        "for Parquet and CSV the names of columns (obs_columns, a list of features, "
        "action_column, reward_column, episode_column); and values for the IOContext of a "
        "callable or a registered reader",
        risk="how data are read",
    )
    actions_in_input_normalized: bool = setting(
        False,
        "offline_data",
        "actions of a bounded Box lie in [-1, 1] in the data, not in the environment's bounds",
        harmless=True,
    )
    shuffle_buffer_size: int = setting(
        0,
        "offline_data",
        "number of batches of a callable or a registered reader from which rows are drawn, 0: the "
        "last one; not used for files, from which rows are drawn uniformly",
        ge=0,
        le=1_000_000,
        harmless=(0, 1000),
        risk=MEMORY,
    )
    dataset_num_iters_per_learner: int | None = setting(
        None,
        "offline_data",
        "updates of a training step that steps no environment; None: one",
        ge=1,
        harmless=True,
    )
    output: str | Callable[..., Any] | None = setting(
        None,
        "offline_data",
        "record samples: 'logdir' into output/ of the trial's folder; a folder or URL; 'dataset' "
        "into the path of output_config; a callable, or 'module:name' of one, that gets an "
        "IOContext and returns an OutputWriter",
        risk=CODE,
    )
    output_config: dict[str, Any] = setting(
        {},
        "offline_data",
        "how to write output: format ('parquet', 'json', 'minari'), path (with output = "
        "'dataset'), and values for the IOContext of your own writer",
        risk="how and where samples are written",
    )
    output_compress_columns: list[str] = setting(
        ["obs", "new_obs"],
        "offline_data",
        f"columns of the files that are compressed, of {', '.join(COMPRESSIBLE)}",
        harmless=True,
    )
    output_max_file_size: int = setting(
        64 * 1024 * 1024,
        "offline_data",
        "bytes after which a file ends and the next one begins",
        ge=1,
        harmless=True,
    )
    output_max_rows_per_file: int | None = setting(
        None,
        "offline_data",
        "steps after which a file ends and the next one begins",
        ge=1,
        harmless=True,
    )


@dataclass(kw_only=True)
class EstimationSettings(Settings):
    """Settings of off-policy estimation: see `core.estimation`."""

    feature: ClassVar[str | None] = "estimates"

    off_policy_estimation_methods: dict[str, Any] = setting(
        {},
        "evaluation",
        "off-policy estimators by your own names, on the data of input_, or of "
        "evaluation_config's input_: {'type': 'ImportanceSampling', 'WeightedImportanceSampling', "
        "'DirectMethod', 'DoublyRobust' (short: is, wis, dm, dr), 'FeatureImportance' or a class, "
        "**its keywords}",
        risk=CODE,
    )
    ope_split_batch_by_episode: bool = setting(
        True,
        "evaluation",
        "estimate from episodes; False: each step is an episode, as for bandits",
        harmless=True,
    )
