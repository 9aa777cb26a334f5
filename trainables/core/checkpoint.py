"""Checkpoints: a JSON file and safetensors, no pickle.

A folder holds `<name>.safetensors` and `<name>.json`, written last, with a digest of both. So a
folder is whole or is none, and a damaged file is told from a good one. Loading runs no code:
callables are stored by name and looked up only among registered names and those in `trust`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from trainables.core.callback_settings import CALLBACK_SETTINGS
from trainables.core.settings import ConfigError
from trainables.core.space_json import space_from_json, space_to_json

FORMAT_VERSION = 1
CHECKPOINT_FILE = "checkpoint.json"
POLICIES = "policies"


class CheckpointError(ConfigError):
    """A checkpoint is missing, damaged, of an unknown format, or not to be trusted."""


def policy_folder(checkpoint: str | os.PathLike[str], module_id: str = "default_policy") -> Path:
    """The policy folder inside a checkpoint folder."""
    return Path(checkpoint) / POLICIES / module_id


def save_state(folder: Path, name: str, state: dict[str, Any]) -> None:
    """Write a tree of dicts, lists, numbers, strings, arrays and tensors as one state.

    Args:
        folder: Made if missing.
        name: `<name>.json` and `<name>.safetensors` are written.
        state: The tree. Dict keys may be strings or integers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    tree = _encode(state, "", tensors)
    data = save(tensors)
    document = {
        "format_version": FORMAT_VERSION,
        "tensors": f"{name}.safetensors",
        "sha256": _digest(tree, data),
        "state": tree,
    }
    _write(folder / f"{name}.safetensors", data)
    _write(folder / f"{name}.json", json.dumps(document, indent=1).encode())


def load_state(folder: Path, name: str) -> dict[str, Any]:
    """Read what `save_state` wrote.

    Raises:
        CheckpointError: naming the folder and what is wrong with it.
    """
    document = _read_document(folder, name)
    path = folder / f"{name}.safetensors"
    if document["tensors"] != path.name:
        raise CheckpointError(
            f"checkpoint {folder}: {name}.json names {document['tensors']!r}, not {path.name}"
        )
    try:
        data = path.read_bytes()
        if _digest(document["state"], data) != document["sha256"]:
            raise CheckpointError(
                f"checkpoint {folder} is damaged: {name}.json or {path.name} has been changed"
            )
        return _decode(document["state"], load(data))
    except FileNotFoundError:
        raise CheckpointError(f"checkpoint {folder} is damaged: {path.name} is missing") from None
    except (SafetensorError, KeyError, TypeError) as error:
        raise CheckpointError(f"checkpoint {folder} is damaged: {path.name}: {error}") from None


def _digest(tree: Any, tensors: bytes) -> str:
    """Of the state in both files: the JSON text of a tree is the same after reading it back."""
    digest = hashlib.sha256(json.dumps(tree).encode())
    digest.update(tensors)  # apart: together they would be copied, and they may hold a buffer
    return digest.hexdigest()


def _read_document(folder: Path, name: str) -> dict[str, Any]:
    path = folder / f"{name}.json"
    if not folder.is_dir():
        raise CheckpointError(f"checkpoint {folder}: there is no such folder")
    if not path.is_file():
        raise CheckpointError(f"{folder} is no checkpoint: it has no {path.name}")
    try:
        document = json.loads(path.read_bytes())
        version = document["format_version"]
        document["tensors"], document["sha256"], document["state"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(
            f"checkpoint {folder} is damaged: {path.name} is unreadable"
        ) from None
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"checkpoint {folder} has format version {version!r}; this is version {FORMAT_VERSION}"
        )
    return document


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


# ---------------------------------------------------------------------- trees

_MARKS = ("__tensor__", "__array__", "__scalar__", "__items__", "__callable__", "__space__")


def _encode(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    while path in tensors:  # "a/b" and "b" inside "a", or the keys 1 and "1"
        path += "'"
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().contiguous().clone()
        return {"__tensor__": path}
    if isinstance(value, np.ndarray):
        # Shared memory is refused by safetensors and negative strides by torch; what owns its
        # memory is taken as it is, since it may be a replay buffer.
        whole = value.flags.owndata and value.flags.c_contiguous and value.flags.writeable
        tensors[path] = torch.from_numpy(value if whole else np.array(value, order="C"))
        return {"__array__": path, "dtype": str(value.dtype)}
    if isinstance(value, np.float32):  # an environment that goes on with float64 goes elsewhere
        return {"__scalar__": float(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, gym.Space):
        return {"__space__": space_to_json(value)}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not any(m in value for m in _MARKS):
            return {k: _encode(v, f"{path}/{k}", tensors) for k, v in value.items()}
        return {"__items__": [[k, _encode(v, f"{path}/{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_encode(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if callable(value):
        return {"__callable__": callable_name(value)}
    raise ConfigError(f"{path or 'state'}: {type(value).__name__} cannot be in a checkpoint")


def _decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "__tensor__" in value:
        return tensors[value["__tensor__"]]
    if "__array__" in value:
        return tensors[value["__array__"]].numpy().astype(value["dtype"], copy=False)
    if "__scalar__" in value:
        return np.float32(value["__scalar__"])
    if "__items__" in value:
        return {key: _decode(item, tensors) for key, item in value["__items__"]}
    if "__callable__" in value:
        return UntrustedName(value["__callable__"])
    if "__space__" in value:
        return space_from_json(value["__space__"])
    return {key: _decode(item, tensors) for key, item in value.items()}


# ---------------------------------------------------------------------- callables by name


class UntrustedName(str):
    """`module:qualname` of a callable that a checkpoint names. Nothing of it is imported."""


def callable_name(value: Callable[..., Any]) -> str:
    """`module:qualname` of a callable, by which it can be found again unless it is a local one."""
    # An instance (a functools.partial, say) has no name of its own: its class's would be another.
    return f"{value.__module__}:{getattr(value, '__qualname__', f'<{type(value).__qualname__}>')}"


def resolve_callable(name: str) -> Any:
    """Import what `module:qualname` names. Only for names that the user wrote or trusts.

    Raises:
        ConfigError: if there is no such thing.
    """
    module_name, _, qualname = name.partition(":")
    if "<" in qualname:
        raise ConfigError(
            f"{name!r} cannot be found again: define it at the top of a module, or register it "
            "under a name (tune.register_env)"
        )
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{name!r} cannot be found: {error}") from None
    return found


# Settings whose text is the name of a callable, too.
_NAME_CALLABLES = (
    "custom_model",
    "env_runner_cls",
    "env_to_module_connector",
    "module_to_env_connector",
    "learner_connector",
    *CALLBACK_SETTINGS,
    "custom_evaluation_function",
    "learner_class",
)


def trusted(value: Any, trust: Collection[str], what: str) -> Any:
    """A value from a checkpoint with the callables in it that `trust` allows.

    Raises:
        CheckpointError: naming the callable that is not trusted.
    """
    if isinstance(value, UntrustedName):
        _check_trust(value, trust, what)
        return resolve_callable(str(value))
    if isinstance(value, dict):
        for setting in _NAME_CALLABLES:
            for name in _names(value.get(setting)):
                _check_trust(name, trust, what)
        return {key: trusted(item, trust, what) for key, item in value.items()}
    if isinstance(value, list):
        return [trusted(item, trust, what) for item in value]
    return value


def _names(value: Any) -> list[str]:
    """Names in a setting that names callables: as text, as the `type` of a dict, or in a list."""
    if isinstance(value, list):
        return [name for item in value for name in _names(item)]
    if isinstance(value, dict):
        return _names(value.get("type"))
    return [value] if isinstance(value, str) else []


def _check_trust(name: str, trust: Collection[str], what: str) -> None:
    if str(name) not in trust:
        raise CheckpointError(
            f"{what} names the callable {str(name)!r}, which loading would run; if you trust it, "
            f"pass trust=[{str(name)!r}]"
        )
