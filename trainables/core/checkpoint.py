"""Checkpoints: a JSON file and safetensors, no pickle.

A folder holds `<name>.safetensors` and `<name>.json`, written last, with the digests of all files
that belong to it. So a folder is whole or is none, and a damaged file is told from a good one.
Loading runs no code: callables are stored by name, and `core.trust` says which may be looked up.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from trainables.core.callables import UntrustedName, callable_name
from trainables.core.data.space_json import space_from_json, space_to_json
from trainables.core.errors import ConfigError

FORMAT_VERSION = 2
CHECKPOINT_FILE = "checkpoint.json"
POLICIES = "policies"
TRAINABLE = "trainable"
"""Key of a policy's metadata: the class that trained it, where that is not one of ours."""


class CheckpointError(ConfigError):
    """A checkpoint is missing, damaged, of an unknown format, or not to be trusted."""


def policy_folder(checkpoint: str | os.PathLike[str], module_id: str = "default_policy") -> Path:
    """Return the policy folder inside a checkpoint folder."""
    return Path(checkpoint) / POLICIES / module_id


def policy_folders(checkpoint: str | os.PathLike[str]) -> dict[str, Path]:
    """Return the folders of the policies inside a checkpoint folder, by policy id."""
    files = sorted((Path(checkpoint) / POLICIES).glob("*/policy.json"))
    return {file.parent.name: file.parent for file in files}


def only_policy_folder(checkpoint: Path) -> Path:
    """Return the policy folder inside the folder of a checkpoint that holds one policy.

    Raises:
        CheckpointError: if it holds several, naming them.
    """
    folder = policy_folder(checkpoint)
    if os.path.lexists(folder):
        return folder
    found = policy_folders(checkpoint)
    first = next(iter(found.values()), folder)  # without any a damaged one, which loading names
    if len(found) > 1:
        raise CheckpointError(
            f"checkpoint {checkpoint} holds several policies ({', '.join(found)}): give the folder "
            f"of one, e.g. {first}"
        )
    return first


def save_state(folder: Path, name: str, state: dict[str, Any], others: Iterable[Path] = ()) -> None:
    """Write a tree of dicts, lists, numbers, strings, arrays and tensors as one state.

    Args:
        folder: The folder to write to; made if missing.
        name: The stem of the files `<name>.json` and `<name>.safetensors`.
        state: The tree. Dict keys may be strings or integers.
        others: Files in the folder, or deeper, that belong to the state: it is damaged where one of
            them is another one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    tree = _encode(state, "", tensors)
    data = save(tensors)
    files = {f"{name}.safetensors": hashlib.sha256(data).hexdigest()}
    files |= {path.relative_to(folder).as_posix(): _digest_of(path) for path in sorted(others)}
    document = {
        "format_version": FORMAT_VERSION,
        "files": files,
        "sha256": _digest(files, tree),
        "state": tree,
    }
    _write(folder / f"{name}.safetensors", data)
    _write(folder / f"{name}.json", json.dumps(document, indent=1).encode())


def load_state(folder: Path, name: str) -> dict[str, Any]:
    """Read what `save_state` wrote, if no file that belongs to it has changed.

    Raises:
        CheckpointError: naming the folder and what is wrong with it.
    """
    document = _read_document(folder, name)
    own = f"{name}.safetensors"
    try:
        data = _read_file(folder / own)
        _check_file(folder, document, own, hashlib.sha256(data).hexdigest())
        for other in sorted(document["files"].keys() - {own}):
            _check_file(folder, document, other)
        state = _decode(document["state"], load(data))
        if not isinstance(state, dict):
            raise TypeError(f"its state is a {type(state).__name__}")
        return state
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {folder} is damaged: {error}") from None
    except (SafetensorError, ConfigError) as error:
        raise CheckpointError(f"checkpoint {folder} is damaged: {own}: {error}") from None
    except Exception as error:  # of whatever the values in a tree can be
        raise CheckpointError(f"checkpoint {folder} is damaged: {error!r}") from error


def load_part(folder: Path, name: str, keys: Iterable[str]) -> list[Any]:
    """Read some keys of what `save_state` wrote: those that hold no arrays, which are not read.

    Raises:
        CheckpointError: naming the folder and what is wrong with it.
    """
    state = _read_document(folder, name)["state"]
    try:
        return [_decode(state[key], {}) for key in keys]
    except Exception as error:  # of whatever the values in a tree can be
        raise CheckpointError(f"checkpoint {folder} is damaged: {error!r}") from error


def check_whole(part: Path) -> None:
    """Check the files of a folder against the checkpoint that it is a part of, if it is one.

    Args:
        part: A policy's folder: `<checkpoint>/policies/<module id>`, or one by itself.

    Raises:
        CheckpointError: naming the file that is another one.
    """
    folder = part.parent.parent
    if part.parent.name != POLICIES:
        return
    inside = f"{POLICIES}/{part.name}/"
    for path in sorted(folder.glob("*.json")):
        try:
            document = _read_document(folder, path.stem)
        except CheckpointError:
            if path.name == CHECKPOINT_FILE:
                raise
            continue  # something else
        try:
            for name in sorted(name for name in document["files"] if name.startswith(inside)):
                _check_file(folder, document, name)
        except CheckpointError as error:
            raise CheckpointError(f"checkpoint {folder} is damaged: {error}") from None


class StoredFolder(Protocol):
    """A folder in some storage, as Ray's `Checkpoint` is; this package's core does without Ray."""

    path: str

    def as_directory(self) -> AbstractContextManager[str]:
        """Give the folder on this machine: itself, or a copy for as long as it is needed."""
        ...


class HasCheckpoint(Protocol):
    """An object that holds a checkpoint: a result of Tune, and what `save` returned."""

    @property
    def checkpoint(self) -> Any:
        """The checkpoint; None if there is none."""
        ...


AnyCheckpoint = str | os.PathLike[str] | StoredFolder | HasCheckpoint


@contextmanager
def local_folder(checkpoint: AnyCheckpoint) -> Iterator[Path]:
    """Give the folder of a checkpoint on this machine; one that lies elsewhere is fetched.

    Raises:
        CheckpointError: if it is no checkpoint, or cannot be fetched.
    """
    found: Any = getattr(checkpoint, "checkpoint", checkpoint)
    if not hasattr(found, "as_directory"):  # first: Ray's is an os.PathLike that raises
        if isinstance(found, (str, os.PathLike)):
            yield Path(found)
            return
        raise CheckpointError(
            f"a checkpoint is a folder, or Ray's Checkpoint of one, not a {type(found).__name__}"
        )
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(found.as_directory())
        except OSError as error:
            raise CheckpointError(f"checkpoint {found.path} cannot be fetched: {error}") from error
        yield Path(folder)


def _digest(files: dict[str, str], tree: Any) -> str:
    """Return the digest of a state: the JSON text of a tree is the same after reading it back."""
    return hashlib.sha256(json.dumps([files, tree]).encode()).hexdigest()


def _digest_of(path: Path) -> str:
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_file(folder: Path, document: dict[str, Any], name: str, digest: str = "") -> None:
    is_inside = name and not os.path.isabs(name) and ".." not in Path(name).parts
    if not is_inside or document["files"].get(name) != (digest or _digest_of(folder / name)):
        raise CheckpointError(f"{folder / name} has been changed, or is of another checkpoint")


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file: a pipe would be waited for, and a device has no end."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CheckpointError(f"{path} is no file")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except OSError as error:  # e.g. links that lead in a circle
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None


def _read_file(path: Path) -> bytes:
    with _opened(path) as file:
        return file.read()


def _read_document(folder: Path, name: str) -> dict[str, Any]:
    path = folder / f"{name}.json"
    if not folder.is_dir():
        raise CheckpointError(f"checkpoint {folder}: there is no such folder")
    if not os.path.lexists(path):
        raise CheckpointError(f"{folder} is no checkpoint: it has no {path.name}")
    try:
        data = _read_file(path)
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {folder} is damaged: {error}") from None
    try:
        document = json.loads(data)
        version = document["format_version"]
        if type(version) is not int or version != FORMAT_VERSION:  # 2.0 equals 2
            raise CheckpointError(
                f"checkpoint {folder} has format version {version!r}; this is version "
                f"{FORMAT_VERSION}"
            )
        digest = _digest(document["files"], document["state"])
        if document["sha256"] != digest or not isinstance(document["files"], dict):
            raise CheckpointError(f"checkpoint {folder} is damaged: {path} has been changed")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"checkpoint {folder} is damaged: {path.name} is unreadable"
        ) from None
    return dict(document)


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
        array = tensors[value["__array__"]].numpy()
        if str(array.dtype) != value["dtype"]:  # a text of another length would take any memory
            raise TypeError(f"an array is of {array.dtype}, not of {value['dtype']!r}")
        return array
    if "__scalar__" in value:
        return np.float32(value["__scalar__"])
    if "__items__" in value:
        return {key: _decode(item, tensors) for key, item in value["__items__"]}
    if "__callable__" in value:
        return UntrustedName(value["__callable__"])
    if "__space__" in value:
        return space_from_json(value["__space__"])
    return {key: _decode(item, tensors) for key, item in value.items()}
