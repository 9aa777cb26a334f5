"""What RLlib's files say of environments: ids that are gone, and how an Atari game is seen.

RLlib preprocesses Atari games as Mnih et al. (2015) did, and so are they here. In its files some of
the settings for it are the model's, and `frameskip: 1` only turns off the emulator's own skipping:
an action is repeated for four frames all the same.
"""

from __future__ import annotations

from typing import Any

from experiments.spec.legacy.notes import leave_out, note, put
from search_spaces.documents import Document
from trainables.core.config.environment import is_ale

# Ids that gymnasium has no more, by those of the same task.
_SAME_TASK = {
    "Pendulum-v0": "Pendulum-v1",
    "HalfCheetah-v2": "HalfCheetah-v5",
    "HalfCheetah-v3": "HalfCheetah-v5",
}
_SIDE = 84  # pixels


def modernise_env(document: Document) -> None:
    """Write in `config` what RLlib's files say of the environment as it is written here.

    Raises:
        SpecError: A setting is given in two places with different values.
    """
    config = document.data["config"]
    envs = _each(config.get("env"))
    _rename_ids(document, config, envs)
    if envs and all(map(is_ale, envs)) and config.get("is_atari") is not False:
        _emulator(document, config)
        if isinstance(config.get("model"), dict):
            _images(document, config["model"])


def _each(env: Any) -> list[Any]:
    """Return the environments that are searched, or the one that is not."""
    searched = env.get("grid_search") if isinstance(env, dict) else None
    return searched if isinstance(searched, list) else [env]


def _rename_ids(document: Document, config: dict[str, Any], envs: list[Any]) -> None:
    present = [_SAME_TASK.get(env, env) if isinstance(env, str) else env for env in envs]
    for old, new in zip(envs, present, strict=True):
        if new != old:
            text = f"env {old!r} is no longer in gymnasium: {new!r} is taken, the same task"
            note(document, ("config", "env"), text)
    if present != envs:
        config["env"] = present[0] if config["env"] == envs[0] else {"grid_search": present}


def _emulator(document: Document, config: dict[str, Any]) -> None:
    given = config.get("env_config")
    if isinstance(given, dict) and given.get("frameskip") == 1:
        why = "RLlib then repeats an action for four frames itself, as is done here"
        leave_out(document, "frameskip", why, within=("env_config",))


def _images(document: Document, model: dict[str, Any]) -> None:
    """Settings of the model that say how a game's frames become an observation."""
    side = model.get("dim")
    if isinstance(side, int):
        del model["dim"]
        if side != _SIDE:
            for name in ("img_height", "img_width"):
                put(document, ("model", "dim"), side, ("env_config", name))
    if isinstance(model.get("framestack"), bool) and not model.pop("framestack"):
        put(document, ("model", "framestack"), 1, ("frame_stack",))
    if model.get("grayscale") is False:
        why = "games are seen in grey, as by RLlib; env_config={'grayscale': False} shows colours"
        leave_out(document, "grayscale", why, within=("model",))
    elif model.get("grayscale") is True:
        del model["grayscale"]
    for name in ("hiddens", "activation"):  # behind convolutions; without "post" unused
        if f"post_fcnet_{name}" in model:
            behind = model.pop(f"post_fcnet_{name}")
            model.pop(f"fcnet_{name}", None)
            put(document, ("model", f"post_fcnet_{name}"), behind, ("model", f"fcnet_{name}"))
    if isinstance(model.get("zero_mean"), bool):
        why = "it has no effect on Atari games"
        leave_out(document, "zero_mean", why, within=("model",))
