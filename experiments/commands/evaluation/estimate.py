"""What a policy that training left in a folder is worth by recorded episodes, without playing."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.numbers import cell, finite_or_none
from experiments.commands.evaluation.played_policy import described_policy
from experiments.commands.evaluation.policy_sources import PolicySource, find_policy
from experiments.errors import ExperimentError
from experiments.terminal import make_table, say

if TYPE_CHECKING:
    from rich.console import Console

GAMMA = 0.99
"""Discount factor of a policy that does not say with which it was trained."""


@dataclass(frozen=True)
class PolicyEstimates:
    """Estimates of what a policy is worth.

    Attributes:
        source: The policy.
        data: The recorded files or folders.
        gamma: The discount factor of what is estimated.
        explore: Whether it is the policy that draws its actions, or the one that takes the best.
        seed: The seed of resamples, fits and draws.
        methods: By estimator what it says: `v_target`, `low`, `high`, `v_behavior`, ….
    """

    source: PolicySource
    data: list[str]
    gamma: float
    explore: bool
    seed: int
    methods: dict[str, dict[str, float]]


def estimate_folder(
    folder: Path,
    data: Sequence[str],
    *,
    estimators: Sequence[str] = (),
    gamma: float | None = None,
    explore: bool | None = None,
    seed: int = 0,
    algo: str | None = None,
    trust: Collection[str] = (),
) -> PolicyEstimates:
    """Estimate what the policy that a folder stands for is worth.

    Args:
        folder: A policy, a checkpoint, a trial or a sweep, see `find_policy`.
        data: Files or folders of recorded episodes, best such that it was not trained on.
        estimators: Types of `off_policy_estimation_methods`, as `wis` and `dm`; by default these
            two, without `wis` where actions have no density.
        gamma: Discount factor; by default that of training.
        explore: Whether actions are drawn; by default as in training's evaluations.
        seed: Of resamples, fits and draws.
        algo: The algorithm that must have trained the policy; None: whichever it was.
        trust: Code that the policy may name, as `module:name`.

    Raises:
        ExperimentError: There is no such policy, or it is a graph, or of several agents.
        ConfigError: The policy names code that is not trusted, or data or an estimator do not fit.
    """
    import numpy as np

    from trainables.bc import BCConfig
    from trainables.core.config.config import DEFAULT_MODULE_ID
    from trainables.core.distributions.categorical import Categorical
    from trainables.core.policy.policy import Policy
    from trainables.runtime.offline.estimates import PREFIX, OfflineEstimates

    source = find_policy(folder)
    policy = source.load(trust)
    if not isinstance(policy, Policy):
        raise ExperimentError(
            f"--data: {source.folder} is an exported graph; allowed: a policy, a checkpoint, a "
            "trial or a sweep"
        )
    trained_by = policy.metadata.get("algorithm")
    if algo is not None and algo != trained_by:
        raise ExperimentError(f"{source.folder} was trained by {trained_by}, not by {algo}")
    told = policy.metadata.get("evaluation") or {}
    explore = bool(told.get("explore", False)) if explore is None else explore
    gamma = told.get("gamma", GAMMA) if gamma is None else gamma
    if not estimators:
        has_density = explore or isinstance(policy.distribution, Categorical)
        estimators = ["wis", "dm"] if has_density else ["dm"]
    config = BCConfig(
        input_=list(data),
        gamma=gamma,
        evaluation_config={"explore": explore},
        evaluation_interval=1,
        off_policy_estimation_methods={name: {"type": name} for name in estimators},
    )
    config.validate()
    metrics = OfflineEstimates(config, {DEFAULT_MODULE_ID: policy}).metrics(
        config, np.random.SeedSequence(seed)
    )
    methods: dict[str, dict[str, float]] = {name: {} for name in estimators}
    for key, value in metrics.items():
        name, _, metric = key.removeprefix(PREFIX).partition("/")
        methods[name][metric] = value
    return PolicyEstimates(source, list(data), config.gamma, explore, seed, methods)


def show_estimates(found: PolicyEstimates, console: Console, form: str) -> None:
    """Print the estimates as a table, or all of it as JSON."""
    if form == "json":
        methods = {
            name: {metric: finite_or_none(value) for metric, value in of.items()}
            for name, of in found.methods.items()
        }
        document = {
            "policy": str(found.source.folder),
            "chosen": found.source.chosen,
            "data": found.data,
            "gamma": found.gamma,
            "explore": found.explore,
            "seed": found.seed,
            "estimates": methods,
        }
        console.file.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
        return
    acts = "draws its actions" if found.explore else "takes the most likely actions"
    table = make_table(
        f"Estimated return of an episode, discounted by {found.gamma:g}",
        "recorded: the mean return of the recorded episodes; effective: the effective number of "
        "episodes (importance weights). The estimate is not the return of played episodes.",
    )
    table.add_column("estimator")
    names = ("estimate", "95 % interval", "recorded", "effective", "episodes")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for name, of in found.methods.items():
        if "v_target" not in of:
            said = ", ".join(f"{metric} {cell(value)}" for metric, value in of.items())
            say(console, f"{name}: {said}")
            continue
        table.add_row(
            name,
            cell(of["v_target"]),
            f"{cell(of['low'])} … {cell(of['high'])}",
            cell(of["v_behavior"]),
            cell(of.get("effective_sample_size")),
            cell(int(of["num_episodes"])),
        )
    if table.row_count:
        console.print(table)
    say(console, f"Policy: {described_policy(found.source)}; it {acts}")
    say(console, f"Data: {', '.join(found.data)}")
