"""How metrics are declared, with units and meanings, and those that several algorithms report.

An algorithm declares what it reports in its class, `Algorithm.reported_metrics`; what every result
holds besides is in `all_metrics`. The page `trainables/metrics.md` is made of both, and a test
compares them with results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

MODULE = "<module>"
"""Stands for a module's id in names: `default_policy`, or the id of one of several policies."""


class Reported(NamedTuple):
    """A metric.

    Attributes:
        name: Its key in a result; `<…>` stands for what depends on the run.
        unit: Of its value; "" for a plain number.
        meaning: What it is, with its formula or source.
        when: The setting without which no result has it; "": every result has it.
    """

    name: str
    unit: str
    meaning: str
    when: str = ""


OLDER: dict[str, str] = {
    "episode_reward_mean": "episode_return_mean",
    "episode_reward_min": "episode_return_min",
    "episode_reward_max": "episode_return_max",
    "episodes_this_iter": "num_episodes",
    "episodes_total": "num_episodes_lifetime",
    "timesteps_total": "num_env_steps_sampled_lifetime",
}
"""Older names that every result has beside the newer ones, for stop criteria and plots."""

OLDER_EVALUATED: dict[str, str] = {
    f"evaluation/{old}": f"evaluation/{new}"
    for old, new in OLDER.items()
    if not new.endswith("_lifetime")  # which no evaluation counts
}
"""The same below `evaluation/`, in every result that has an evaluation."""


def older_names(metrics: Mapping[str, Any], older: Mapping[str, str] = OLDER) -> dict[str, Any]:
    """Return what the older names of metrics hold, as far as the newer ones are there."""
    return {old: metrics[new] for old, new in older.items() if new in metrics}


def learned(name: str, unit: str, meaning: str, when: str = "") -> Reported:
    """Return the declaration of a metric of learning, which is below `learner/<module>/`."""
    return Reported(f"learner/{MODULE}/{name}", unit, meaning, when)


def of_groups(**whose: str) -> tuple[Reported, ...]:
    """Return what is reported of groups of parameters that have a learning rate each.

    Args:
        whose: Whose gradients and rates they are, by the group's name: `actor="the policy's"`.
    """
    norms = (
        learned(f"{group}_grad_norm", "", f"L2 norm of {owner} gradient before clipping")
        for group, owner in whose.items()
    )
    rates = (
        learned(f"curr_{group}_lr", "", f"{owner} learning rate at this environment step")
        for group, owner in whose.items()
    )
    return (*norms, *rates)


# What several algorithms report, for their `reported_metrics`.
WITH_KL = "`use_kl_loss`"
_SEPARATE = "`_separate_vf_optimizer`"

TOTAL_LOSS = learned(
    "total_loss", "", "policy_loss + `vf_loss_coeff` x vf_loss - `entropy_coeff` x entropy"
)
TOTAL_LOSS_WITH_KL = TOTAL_LOSS._replace(
    meaning=f"{TOTAL_LOSS.meaning}, + the KL coefficient x mean_kl with {WITH_KL}"
)
ENTROPY = learned(
    "entropy",
    "nats",
    "mean entropy of the action distribution; for several independent actions the sum. Near 0: "
    "the policy hardly explores any more",
)
LR = learned("curr_lr", "", "the learning rate at this environment step")
ENTROPY_COEFF = learned("curr_entropy_coeff", "", "`entropy_coeff` at this environment step")
GRAD_NORM = learned(
    "grad_norm", "", "L2 norm of the gradient before clipping; far above `grad_clip`: steps are cut"
)
ADVANTAGE_STD = learned(
    "advantage_std",
    "reward",
    "standard deviation of the train batch's advantages, before normalisation",
)
EXPLAINED_VAR = learned(
    "vf_explained_var",
    "",
    "1 - Var(R - V) / Var(R) of value targets R and of the values V before the update: 1 is "
    "perfect, 0 no better than their mean, below 0 worse",
)
CLIP_FRACTION = learned(
    "clip_fraction",
    "",
    "fraction of rows with a ratio outside [1 - `clip_param`, 1 + `clip_param`]",
)
HALF_VALUE_LOSS = learned("vf_loss", "reward²", "half the mean of (V - v)², v the value targets")
ASYNCHRONOUS = (
    ENTROPY,
    GRAD_NORM._replace(when=f"no {_SEPARATE}"),
    learned("policy_grad_norm", "", "the same of the policy alone", _SEPARATE),
    learned("vf_grad_norm", "", "the same of the value function alone", _SEPARATE),
    EXPLAINED_VAR,
    LR,
    learned("curr_vf_lr", "", "the value function's learning rate", _SEPARATE),
    ENTROPY_COEFF,
    learned(
        "policy_lag",
        "versions",
        "number of broadcasts by which the sampling weights were behind, mean over the batch's "
        "fragments; 0: on-policy",
    ),
    learned(
        "num_env_steps_trained", "env steps", "environment steps in the last update's train batch"
    ),
    Reported("learner_queue_length", "train batches", "train batches that wait for learner actors"),
)
"""Of algorithms that learn from fragments as they come."""
