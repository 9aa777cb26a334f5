"""Settings in RLlib's files that `config.reference.compatibility` does not know, as it names them.

They are of releases long past, or of frameworks that make no difference here. `modernise` renames
the former, and leaves the latter out with a warning, so that the file can stay as it is. In a spec
of our own form the same names are errors.
"""

from __future__ import annotations

from typing import Any

from experiments.spec.legacy.envs import modernise_env
from experiments.spec.legacy.notes import leave_out, put
from experiments.spec.legacy.values import modernise_values
from search_spaces.documents import Document, KeyPath
from trainables.core.config.reference.compatibility import REFUSED

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
    "sample_batch_size": ("rollout_fragment_length",),
    "max_sample_requests_in_flight_per_worker": ("max_requests_in_flight_per_env_runner",),
    "exploration": ("exploration_config",),
    "vf_share_layers": ("model", "vf_share_layers"),
    **{
        f"{model}.{old}": (model, new)  # after the older names of `model`
        for model in ("q_model_config", "policy_model_config")
        for old, new in (
            ("hidden_layer_sizes", "fcnet_hiddens"),
            ("hidden_activation", "fcnet_activation"),
        )
    },
}
# Always so here, and therefore without effect: a time limit is a truncation.
_ALWAYS = {"no_done_at_end": True, "soft_horizon": False}
_FRAMEWORKS = ("tf", "tf2", "tfe", "torch")
_FRAMEWORK_KEYS = ("use_pytorch", "eager")
_WITHOUT_EFFECT = {
    **dict.fromkeys(
        ("num_multi_gpu_tower_stacks", "num_data_loader_buffers", "num_gpu_loader_threads"),
        "a batch is moved to the GPU in one piece",
    ),
    "vtrace_drop_last_ts": "every step is kept: the last one's successor has a value, too",
}


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
    for name, why in _WITHOUT_EFFECT.items():
        if name in config:
            leave_out(document, name, why)
    modernise_values(document)
    modernise_env(document)


def _leave_out_frameworks(document: Document, config: dict[str, Any]) -> None:
    """TensorFlow's settings change no result: the algorithm is the same in PyTorch."""
    only_tf = [name for name, reason in REFUSED.items() if "TensorFlow" in reason.why]
    if config.get("use_pytorch") is True:
        del config["use_pytorch"]
    for name in (*only_tf, *_FRAMEWORK_KEYS):
        if name in config:
            leave_out(document, name, "everything here is PyTorch")
    framework = config.get("framework")
    searched = framework.get("grid_search") if isinstance(framework, dict) else None
    named = searched if isinstance(searched, list) else [framework]
    if "framework" in config and named != ["torch"] and all(f in _FRAMEWORKS for f in named):
        leave_out(document, "framework", "everything here is PyTorch")


def _rename(document: Document, old: KeyPath, new: KeyPath) -> None:
    parent = document.data["config"]
    for key in old[:-1]:
        parent = parent.get(key)
        if not isinstance(parent, dict):
            return
    if old[-1] in parent:
        put(document, old, parent.pop(old[-1]), new)


def _rename_replay_type(document: Document, config: dict[str, Any]) -> None:
    prioritized = config.get("prioritized_replay")
    if isinstance(prioritized, bool):
        del config["prioritized_replay"]
        kind = "PrioritizedReplayBuffer" if prioritized else "ReplayBuffer"
        put(document, ("prioritized_replay",), kind, ("replay_buffer_config", "type"))
