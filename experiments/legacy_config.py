"""Settings in RLlib's files that `trainables.core.compatibility` does not know, as it names them.

They are of releases long past, or of frameworks that make no difference here. `modernise` renames
the former, and leaves the latter out with a warning, so that the file can stay as it is. In a spec
of our own form the same names are errors.
"""

from __future__ import annotations

import warnings
from typing import Any

from experiments.errors import SpecWarning
from search_spaces.documents import Document, KeyPath
from trainables.core.compatibility import REFUSED

_RENAMED: dict[str, KeyPath] = {
    "learning_starts": ("num_steps_sampled_before_learning_starts",),
    "replay_buffer_config.learning_starts": ("num_steps_sampled_before_learning_starts",),
    "replay_buffer_config.min_size_for_sampling": ("num_steps_sampled_before_learning_starts",),
    "buffer_size": ("replay_buffer_config", "capacity"),
    "prioritized_replay_alpha": ("replay_buffer_config", "alpha"),
    "prioritized_replay_beta": ("replay_buffer_config", "beta"),
    "prioritized_replay_eps": ("replay_buffer_config", "eps"),
    "optimization": ("optimization_config",),
    "Q_model": ("q_model_config",),
    "policy_model": ("policy_model_config",),
    "horizon": ("env_config", "max_episode_steps"),
}
# Always so here, and therefore without effect: a time limit is a truncation.
_ALWAYS = {"no_done_at_end": True, "soft_horizon": False}
_FRAMEWORKS = ("tf", "tf2", "tfe")
_FRAMEWORK_KEYS = ("use_pytorch", "eager")


def modernise(document: Document) -> None:
    """Rename and leave out what RLlib's older files have in `config`.

    Raises:
        SpecError: A setting is given under two names with different values.
    """
    config = document.data.get("config")
    if not isinstance(config, dict):
        return
    _leave_out_frameworks(document, config)
    for old, new in _RENAMED.items():
        _rename(document, tuple(old.split(".")), new)
    _rename_replay_type(document, config)
    for name, value in _ALWAYS.items():
        if config.get(name) is value:
            del config[name]


def _leave_out_frameworks(document: Document, config: dict[str, Any]) -> None:
    """TensorFlow's settings change no result: the algorithm is the same in PyTorch."""
    only_tf = [name for name, reason in REFUSED.items() if "TensorFlow" in reason.why]
    for name in (*only_tf, *_FRAMEWORK_KEYS):
        if name in config:
            _warn(document, name, config.pop(name))
    if isinstance(config.get("framework"), str) and config["framework"] in _FRAMEWORKS:
        _warn(document, "framework", config.pop("framework"))


def _warn(document: Document, name: str, value: Any) -> None:
    if name == "use_pytorch" and value is True:
        return
    warnings.warn(
        f"{document.where(('config', name))}: {name} = {value!r} is left out: everything here is "
        "PyTorch",
        SpecWarning,
        stacklevel=2,
    )


def _rename(document: Document, old: KeyPath, new: KeyPath) -> None:
    parent = document.data["config"]
    for key in old[:-1]:
        parent = parent.get(key)
        if not isinstance(parent, dict):
            return
    if old[-1] in parent:
        _put(document, old, parent.pop(old[-1]), new)


def _put(document: Document, old: KeyPath, value: Any, new: KeyPath) -> None:
    """Set `config.<new>` to what was written at `config.<old>`."""
    node = document.data["config"]
    for key in new[:-1]:
        node = node.setdefault(key, {})
        if not isinstance(node, dict):
            raise document.error(("config", key), f"config: {key} = {node!r} is not a mapping")
    if node.get(new[-1], value) != value:
        raise document.error(
            ("config", *old),
            f"config: {'.'.join(map(str, old))} is an older name of {'.'.join(map(str, new))}, "
            "which has another value",
        )
    node[new[-1]] = value
    document.copy_places(("config", *old), ("config", *new))


def _rename_replay_type(document: Document, config: dict[str, Any]) -> None:
    prioritized = config.get("prioritized_replay")
    if isinstance(prioritized, bool):
        del config["prioritized_replay"]
        kind = "PrioritizedReplayBuffer" if prioritized else "ReplayBuffer"
        _put(document, ("prioritized_replay",), kind, ("replay_buffer_config", "type"))
