"""Callbacks of Tune's that specs of tests name, and a library that pretends to be W&B."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ray import tune

WANDB = "ray.air.integrations.wandb"


class Notes(tune.Callback):
    """Writes what it is told to a file, a line each; raises where it is told to.

    Args:
        file: the file.
        api_key: noted by its length only.
        fail_in: hooks that raise.
    """

    def __init__(self, file: str, api_key: str = "", fail_in: tuple[str, ...] | list[str] = ()):
        self.file, self.api_key, self.fail_in = Path(file), api_key, tuple(fail_in)
        self.count = 0

    def _note(self, hook: str, **more: Any) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps({"hook": hook, "key": len(self.api_key), **more}) + "\n")
        if hook in self.fail_in:
            raise RuntimeError(f"{hook} fails as asked")

    def setup(self, **info: Any) -> None:
        self._note("setup", count=self.count)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._note("on_trial_start", trial=trial.trial_id)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.count += 1
        iteration = result.pop("training_iteration")
        result.clear()
        self._note("on_trial_result", trial=trial.trial_id, iteration=iteration)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._note("on_trial_complete", trial=trial.trial_id)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        self._note("on_experiment_end")

    def get_state(self) -> dict[str, Any]:
        return {"count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


class Broken(tune.Callback):
    """Cannot be made."""

    def __init__(self) -> None:
        raise OSError("no line out")


class NoCallback:
    """Has hooks, and is none."""


def notes(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


class _Finder:
    """Finds the pretended library, as `importlib.util.find_spec` asks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        from importlib.machinery import ModuleSpec

        return ModuleSpec(self.name, None) if name == self.name else None


def pretend(monkeypatch: Any, package: str, module: str, callback: type) -> None:
    """Let a tracker's library be there, and Ray's module with its callback be `module`."""
    ours = ModuleType(module)
    setattr(ours, callback.__name__, callback)
    monkeypatch.setitem(sys.modules, module, ours)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, _Finder(package)])
