"""Which policy a folder stands for: its own, that of a checkpoint, or the best of a sweep."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.home import expanded
from experiments.errors import ExperimentError, SpecError
from experiments.spec.paths import BEST_FOLDER, SPEC_FILE, shown_path
from trainables.core.suggestions import did_you_mean, nearest_names

if TYPE_CHECKING:
    from analysis.errors import ResultsError
    from trainables.core.policy.actable import Actable

_METRIC, _MODE = "episode_return_mean", "max"


@dataclass(frozen=True)
class PolicySource:
    """A policy that was found.

    Attributes:
        folder: What `load_player` takes.
        chosen: How it was chosen, in words; "" where there was no choice.
        is_graph: Whether it is an exported graph.
        policies: Of several policies, which act for several agents, the folder of each by its id.
    """

    folder: Path
    chosen: str = ""
    is_graph: bool = False
    policies: dict[str, Path] = field(default_factory=dict)

    def load(self, trust: Collection[str] = ()) -> Actable:
        """Return the policy; see `load_player`.

        Raises:
            ExperimentError: There are several.
        """
        if self.policies:
            raise ExperimentError(
                f"{self.folder} holds several policies ({', '.join(self.policies)}), which act for "
                f"several agents; give the folder of one, e.g. {next(iter(self.policies.values()))}"
            )
        if not self.is_graph:
            from trainables.core.policy.policy import Policy

            return Policy.load(self.folder, trust=trust)
        from trainables.core.export.exported_policy import load_player

        return load_player(self.folder, trust=trust)


def find_policy(folder: Path) -> PolicySource:
    """Return the policy that a folder stands for.

    Args:
        folder: An exported policy of any format (policy, torch, onnx, mlflow), a checkpoint, a
            trial's folder (its best checkpoint that is still there, by the sweep's objective) or a
            sweep's (its `best/`, else its best checkpoint). Of a trial of several seeds a
            checkpoint's policy is that of the median seed.

    Raises:
        ExperimentError: There is no such folder.
        ResultsError: It is none of these, or has no checkpoint.
    """
    folder = expanded(folder)
    # The two that are asked for most, before what is slow to import.
    if (folder / "policy.json").is_file():
        return PolicySource(folder)
    if (folder / BEST_FOLDER / "policy.json").is_file():
        return PolicySource(folder / BEST_FOLDER, "the sweep's best policy")
    for place, chosen in ((folder, ""), (folder / BEST_FOLDER, "the sweep's best policies")):
        if found := exported_policies(place):
            return PolicySource(place, chosen, policies=found)

    from analysis.ranking.best import best_checkpoint
    from analysis.results.checkpoints import is_of_policy
    from trainables.core.checkpoint import CHECKPOINT_FILE, policy_folders
    from trainables.core.export.exported_policy import is_exported

    if is_exported(folder):
        return PolicySource(folder, is_graph=True)
    if not folder.is_dir():
        raise ExperimentError(
            f"{folder}: no such folder; expected a policy, a checkpoint, a trial or a sweep"
            f"{_nearest(folder)}"
        )
    if (folder / "MLmodel").is_file():
        inner = sorted(path.parent for path in folder.glob("artifacts/*/policy.json"))
        if len(inner) == 1:
            return PolicySource(inner[0], "the policy in the MLflow model")
    if policy_folders(folder):
        return in_checkpoint(folder, _of_seeds(folder))
    if (folder / CHECKPOINT_FILE).is_file():
        return PolicySource(folder)  # a damaged one, which loading names
    if any((folder / name).is_file() for name in ("result.json", "params.json")):
        return _of_trial(folder)
    if folder.name.startswith("checkpoint_") and (folder.parent / "result.json").is_file():
        raise _no_policy(folder, folder)
    metric, mode = objective_of(folder)
    best = best_checkpoint(folder, metric, mode)
    if not is_of_policy(best.path):
        raise _no_policy(folder, best.path, f" ({metric} {best.value:.4g})")
    chosen = (
        f"the best checkpoint of the sweep's best trial {best.trial.trial_id}: "
        f"{metric} {best.value:.4g}"
    )
    return in_checkpoint(best.path, chosen + _and(_of_seeds(best.path)))


def in_checkpoint(checkpoint: Path, chosen: str = "") -> PolicySource:
    """Return the policy, or the policies, of a checkpoint.

    Args:
        checkpoint: Its folder.
        chosen: How it was chosen, in words.
    """
    from analysis.results.checkpoints import POLICY
    from trainables.core.checkpoint import policy_folders

    found = policy_folders(checkpoint)
    if {*found} <= {POLICY.name}:
        return PolicySource(checkpoint / POLICY, chosen)
    return PolicySource(checkpoint, chosen, policies=found)


def exported_policies(folder: Path) -> dict[str, Path]:
    """Return the folders of several policies that were exported together, by policy id."""
    from analysis.results.rows import read_json

    said = read_json(folder / "export.json")
    ids = said.get("policies") if isinstance(said, dict) else None
    if not isinstance(ids, list):
        return {}
    found = {str(policy_id): folder / str(policy_id) for policy_id in ids}
    return {m: path for m, path in found.items() if (path / "policy.json").is_file()}


def plays_agents(source: PolicySource) -> bool:
    """Tell whether it acts for several agents: several policies do, and so may one."""
    if source.policies or source.is_graph:
        return bool(source.policies)
    from trainables.core.checkpoint import load_part
    from trainables.core.errors import ConfigError
    from trainables.runtime.evaluation.agents import SEVERAL_AGENTS

    try:
        (metadata,) = load_part(source.folder, "policy", ["metadata"])
    except ConfigError:  # loading says what is wrong
        return False
    return isinstance(metadata, dict) and SEVERAL_AGENTS in metadata


def _no_policy(folder: Path, checkpoint: Path, value: str = "") -> ResultsError:
    """Return the error for what a trainable of one's own leaves."""
    from analysis.errors import ResultsError

    best = "" if checkpoint == folder else f"; the best one is {shown_path(checkpoint)}{value}"
    return ResultsError(
        f"{folder} holds no policy: your own trainable leaves checkpoints, which only its code "
        f"reads{best}"
    )


def _of_trial(folder: Path) -> PolicySource:
    """The best checkpoint of a trial by what it reported, or the latest where it says nothing."""
    from analysis.ranking.best import best_checkpoint
    from analysis.results.checkpoints import is_of_policy
    from analysis.results.load import load_sweep
    from analysis.results.records import ResultsError

    sweep = load_sweep(folder.resolve().parent)
    sweep.trials = [trial for trial in sweep.trials if trial.path.resolve() == folder.resolve()]
    if not sweep.trials:
        raise ResultsError(f"{folder}: {sweep.path} does not name it as one of its trials")
    metric, mode = objective_of(sweep.path)
    try:
        best = best_checkpoint(sweep, metric, mode)
    except ResultsError:
        (trial,) = sweep.trials
        paths = sorted([*(c.path for c in trial.checkpoints), *trial.unplaced])
        if not paths:
            raise ResultsError(
                f"{folder}: the trial has no checkpoint (status {trial.status})"
            ) from None
        latest = paths[-1]
        chosen = f"the trial's latest checkpoint {latest.name}: no result rates it"
    else:
        latest = best.path
        chosen = f"the trial's best checkpoint {latest.name}: {metric} {best.value:.4g}"
    if not is_of_policy(latest):
        raise _no_policy(folder, latest)
    return in_checkpoint(latest, chosen + _and(_of_seeds(latest)))


def objective_of(sweep: Path) -> tuple[str, str]:
    """Return the metric and mode of a sweep; those of returns where no spec says others."""
    from experiments.sweep.load import read_spec

    for folder in (sweep, sweep.parent):  # a final's trials lie one folder deeper
        if (folder / SPEC_FILE).is_file():
            try:
                objective = read_spec(folder / SPEC_FILE).objective
            except SpecError:
                break
            return objective.metric, objective.mode
    return _METRIC, _MODE


def _of_seeds(checkpoint: Path) -> str:
    if not (checkpoint / "seeds.json").is_file():
        return ""
    return "the policy of the median seed"


def _and(text: str) -> str:
    return f"; {text}" if text else ""


def _nearest(folder: Path) -> str:
    if not folder.parent.is_dir():
        return ""
    names = [path.name for path in folder.parent.iterdir() if path.is_dir()]
    near = nearest_names(folder.name, names, most=3, cutoff=0.5)
    return did_you_mean(shown_path(folder.parent / name) for name in near)
