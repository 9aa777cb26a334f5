"""The vocabulary of results: what columns are called, how labels say it, what counts as a value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from analysis.errors import ResultsError

if TYPE_CHECKING:
    import pandas as pd

ITERATION = "training_iteration"
ENV_STEPS = "num_env_steps_sampled_lifetime"
TRAINED = "num_env_steps_trained_lifetime"
"""What counts steps where training steps no environment."""
SECONDS = "time_total_s"
END = "end_of_training"
"""No column: how much of its own training, up to its last value, a run has had, from 0 to 1."""
COUNTERS = (ITERATION, ENV_STEPS, SECONDS, "timestamp")
"""Those that are numbers and only rise."""
HOST = "host"
"""Which of a sweep's processes trained a trial: no metric, and absent where it has its own."""

RETURN = "episode_return_mean"
EPISODES = "num_episodes_lifetime"
EVALUATION = "evaluation/"
EVALUATED_EPISODES = "evaluation/num_episodes"
ESTIMATED = "evaluation/ope/"
"""What off-policy estimators say: `<name>/v_target` is what they take a policy to be worth."""
VALUE_OF_TARGET = "/v_target"

_OF_A_POLICY = re.compile(
    r"(?:policies/([^/]+)/config|algorithm_config_overrides_per_module/([^/]+))/(.+)"
)
_LABELS = {
    ENV_STEPS: "environment steps",
    TRAINED: "steps trained on",
    ITERATION: "training iteration",
    SECONDS: "training time (s)",
    END: "share of the run's own training",
    RETURN: "mean episode return",
    "episode_len_mean": "mean episode length (steps)",
    f"{EVALUATION}{RETURN}": "mean episode return (evaluation)",
    "env_steps_per_second": "environment steps per second",
    "env_steps": "environment steps of a trial",
    "wall_s": "training time of a trial (s)",
    "cpu_s": "CPU seconds of a trial",
    "gpu_s": "GPU seconds of a trial",
}


def metric_label(metric: str) -> str:
    """Say a metric in words; by its name, where there are none."""
    if metric.startswith(ESTIMATED) and metric.endswith(VALUE_OF_TARGET):
        return f"estimated discounted return ({estimator_of(metric)})"
    return _LABELS.get(metric, metric)


def setting_label(name: str) -> str:
    """Say a setting in short: of one policy of several by its id and the key, `agent_0/lr`."""
    found = _OF_A_POLICY.fullmatch(name)
    return name if found is None else f"{found[1] or found[2]}/{found[3]}"


def returns_of_policies(columns: Iterable[str], within: str = "") -> dict[str, str]:
    """Return the metrics of several policies' mean returns, by policy id; none of one policy.

    Args:
        columns: The names of a trial's metrics.
        within: What the metrics' names begin with: nothing, or `EVALUATION`.
    """
    name = re.compile(rf"{within}module/([^/]+)/{RETURN}")
    found = {match[1]: match[0] for column in columns if (match := name.fullmatch(column))}
    return dict(sorted(found.items())) if len(found) > 1 else {}


def estimator_of(metric: str) -> str:
    """Return the name of the off-policy estimator that reports a metric."""
    return metric.removeprefix(ESTIMATED).partition("/")[0]


def host_of(result: Mapping[str, Any]) -> int | None:
    """Return which of a sweep's processes a result is from; None where the trial has its own.

    Args:
        result: A result, or a row of a trial's frame, where counts may have become floats.
    """
    value: Any = result.get(HOST)
    is_number = not isinstance(value, bool) and isinstance(value, Real)  # numpy's flags are none
    return int(value) if is_number and float(value).is_integer() else None


def environment_of(config: Mapping[str, Any]) -> Any:
    """Return what a trial is played in: `env`, or that of evaluations where training has none."""
    env = config.get("env")
    evaluated = config.get("evaluation_config")
    if env is None and isinstance(evaluated, Mapping):
        return evaluated.get("env")
    return env


def sign_of(mode: str) -> float:
    """Give 1 for `"max"` and -1 for `"min"`.

    Raises:
        ResultsError: `mode` is neither.
    """
    if mode not in ("max", "min"):
        raise ResultsError(f"mode must be 'max' or 'min', not {mode!r}")
    return 1.0 if mode == "max" else -1.0


def finite(values: pd.Series | None) -> pd.Series:
    """Keep the finite numbers of a column, with their index; what is no number is missing."""
    import numpy as np  # here: the command line imports this module before it needs a frame
    import pandas as pd

    if values is None:
        return pd.Series(dtype=float)
    if values.dtype != float:  # the usual case is spared: a report asks thousands of times
        values = pd.to_numeric(values, errors="coerce").astype(float)
    known = np.isfinite(values.to_numpy())
    return values if known.all() else values[known]
