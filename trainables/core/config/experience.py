"""Settings of recorded experience: what is learned from, and what is written beside training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.recorded.input_shares import (
    SAMPLER,
    InputKey,
    candidates,
    is_code_name,
    may_be_reader,
    parse_input,
    plain_paths,
)
from trainables.core.config.reporting import ReportingSettings
from trainables.core.config.settings import (
    CODE,
    MEMORY,
    contains_search_domain,
    refuse_given,
    setting,
)
from trainables.core.errors import ConfigError

LOGDIR, DATASET = "logdir", "dataset"
OUTPUT_FORMATS = ("parquet", "json", "minari")
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
_OF_DATA = ("input_config", "actions_in_input_normalized", "shuffle_buffer_size")
_OF_FILES = ("output_compress_columns", "output_max_file_size", "output_max_rows_per_file")
_OF_OUTPUT = ("output_config", *_OF_FILES)


@dataclass(kw_only=True)
class OfflineSettings(ReportingSettings):
    """Settings of recorded experience: what is learned from, what is written beside training."""

    # Whether the algorithm can learn from what another policy did.
    learns_from_data: ClassVar[bool] = False
    # Why not, in words, if it cannot.
    why_no_data: ClassVar[str] = "it learns from what its present policy has just sampled"

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

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked settings; a search domain passes.

        Raises:
            ConfigError: for a name or value that is not allowed.
        """
        paths = {name: plain_paths(values[name]) for name in ("input_", "output") if name in values}
        checked = super().check({**values, **paths})
        for given in candidates(checked.get("input_", SAMPLER)):
            if not contains_search_domain(given):
                cls._check_input(given)
        _check_output(checked)
        return checked

    @classmethod
    def _check_input(cls, given: Any) -> None:
        """Refuse sources that are none, or that the algorithm cannot learn from."""
        shares = parse_input(given)
        if cls.learns_from_data or {*shares} == {SAMPLER}:
            return
        algorithm = cls.__name__.removesuffix("Config")
        raise ConfigError(
            f"input_ = {given!r} is not possible with {algorithm}: {cls.why_no_data}; allowed: "
            "'sampler'. BC and MARWIL imitate data, CQL, DQN, IQL and SAC learn from them"
        )

    @property
    def input_shares(self) -> dict[InputKey, float]:
        """The sources that `input_` names, each with its share of a batch; they sum to 1.

        A key is "sampler", a path, glob, URL or name; a tuple of such that are read as one; or a
        callable.
        """
        return parse_input(self.input_)

    @property
    def may_sample(self) -> bool:
        """Whether `input_` has the sampler among its sources, in a search: any value of it."""
        known = [given for given in candidates(self.input_) if not contains_search_domain(given)]
        return not known or any(SAMPLER in parse_input(given) for given in known)

    def validate(self) -> None:
        super().validate()
        shares = self.input_shares
        if {*shares} == {SAMPLER}:
            for name in _OF_DATA:
                refuse_given(self, name, "input_ = 'sampler': no data are read")
        elif self.shuffle_buffer_size and not any(map(may_be_reader, shares)):
            raise ConfigError(
                f"shuffle_buffer_size = {self.shuffle_buffer_size} has no effect with input_ = "
                f"{self.input_!r}: rows of files are drawn uniformly from all of them; it is for "
                "a callable or a name given to register_input"
            )
        if self.needs_env:
            refuse_given(
                self,
                "dataset_num_iters_per_learner",
                "sampled experience: how many updates there are follows from what is sampled",
            )
        self._validate_output()

    def _validate_output(self) -> None:
        if self.output is None:
            for name in _OF_OUTPUT:
                refuse_given(self, name, "output = None: nothing is written")
            return
        if not self.needs_env:
            raise ConfigError(
                f"output = {self.output!r} has no effect with training that steps no environment: "
                "nothing is sampled that could be written"
            )
        if isinstance(self.output, str) and not is_code_name(self.output):
            self._validate_files()

    def _validate_files(self) -> None:
        """Check what says how files are written."""
        kind = self.output_config.get("format")
        if kind == "minari":
            for name in _OF_FILES:
                refuse_given(self, name, "output_config = {'format': 'minari'}: Minari decides")
        for name in self.output_config:
            if name not in ("format", "path") or (name == "path" and self.output != DATASET):
                raise ConfigError(
                    f"output_config: {name!r} has no effect with output = {self.output!r}; "
                    "allowed: format, and path with output = 'dataset'"
                )
        path = self.output_config.get("path")
        if self.output == DATASET and not (isinstance(path, str) and path):
            raise ConfigError(
                "output = 'dataset' needs output_config={'path': …}: the folder or URL to write "
                f"to; it has path = {path!r}"
            )


def _check_output(checked: Mapping[str, Any]) -> None:
    """Refuse what cannot be written so, of checked settings."""
    if checked.get("output") == "":
        raise ConfigError("output = '' is not allowed; allowed: a folder, 'logdir', 'dataset'")
    columns = checked.get("output_compress_columns", [])
    for column in columns if isinstance(columns, list) else []:
        if isinstance(column, str) and column not in COMPRESSIBLE:
            raise ConfigError(
                f"output_compress_columns = {columns!r}: {column!r} is no column of the files; "
                f"allowed: {', '.join(COMPRESSIBLE)}"
            )
    config = checked.get("output_config", {})
    kind = config.get("format") if isinstance(config, dict) else None
    output = checked.get("output")
    own_writer = callable(output) or is_code_name(output)
    if isinstance(kind, str) and kind not in OUTPUT_FORMATS and not own_writer:
        raise ConfigError(
            f"output_config: format = {kind!r} is not allowed; allowed: {', '.join(OUTPUT_FORMATS)}"
        )
