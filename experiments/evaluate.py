"""Play episodes with a policy that training left in a folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.errors import ExperimentError
from experiments.paths import BEST_FOLDER, SPEC_FILE

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.runtime.evaluation import EvaluationResult


def evaluate_folder(
    folder: Path,
    *,
    episodes: int = 10,
    seed: int = 0,
    env: str | None = None,
    explore: bool = False,
    algo: str | None = None,
    trust: Collection[str] = (),
) -> tuple[EvaluationResult, str]:
    """Evaluate the policy in a folder.

    Args:
        folder: An exported policy, a checkpoint, or a sweep's folder (its `best/` is taken).
        episodes: How many to play.
        seed: Of the episodes.
        env: The environment; by default the one that the policy was trained on.
        explore: Sample actions instead of taking the most likely.
        algo: The algorithm that must have trained the policy; None: whichever it was.
        trust: Code that the policy may name, as `module:name`: connectors, a custom model.

    Returns:
        The result and the environment's name.

    Raises:
        ExperimentError: The folder is missing or a sweep without a policy, another algorithm
            trained it, or no environment is known.
        ConfigError: The policy is damaged or names code that is not trusted, or the environment is
            unknown or does not fit.
    """
    from trainables.core.policy import Policy
    from trainables.runtime.envs import is_name_safe
    from trainables.runtime.evaluation import evaluate_policy

    folder = folder.expanduser()
    if not folder.is_dir():
        raise ExperimentError(f"{folder}: no such folder; expected a policy or a checkpoint")
    if (folder / SPEC_FILE).is_file():
        if not (folder / BEST_FOLDER).is_dir():
            raise ExperimentError(
                f"{folder} is a sweep without a {BEST_FOLDER}/ folder: "
                f"export its best policy with `tunescape export {folder}`"
            )
        folder = folder / BEST_FOLDER
    policy = Policy.load(folder, trust=trust)
    trained_by = policy.metadata.get("algorithm")
    if algo is not None and algo != trained_by:
        raise ExperimentError(f"{folder} was trained by {trained_by}, not by {algo}")
    trained_on = policy.metadata.get("env")
    environment = env if env is not None else trained_on
    if not environment:
        raise ExperimentError(f"{folder} does not say on which environment: name it with --env")
    if env is None and not is_name_safe(environment):
        raise ExperimentError(
            f"{folder} names the environment {environment!r}, whose module would be imported; "
            f"if you trust it, pass --env {environment}"
        )
    env_config = policy.metadata.get("env_config") if environment == trained_on else None
    result = evaluate_policy(
        policy, environment, env_config, num_episodes=episodes, seed=seed, explore=explore
    )
    return result, str(environment)


def show_evaluation(result: EvaluationResult, environment: str, console: Console) -> None:
    """Print the returns."""
    returns = result.returns
    console.print(
        f"{environment}: return {result.return_mean:.2f} ± {result.return_std:.2f} "
        f"(min {returns.min():.2f}, max {returns.max():.2f}) over {len(returns)} episodes, "
        f"mean length {result.lengths.mean():.1f}",
        highlight=False,
        soft_wrap=True,
    )
