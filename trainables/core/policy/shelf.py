"""`PolicyShelf`: the policies that were used last are in memory, the others' tensors on disk."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.features import Feature
from trainables.core.policy.policy import Policy

Tensors = Callable[[], Iterable[Tensor]]
"""Returns those that there are now: an optimiser makes some of its own as it steps first."""


Recipes = Mapping[str, dict[str, Any]]
"""The arguments of policies, by module id."""


class HasModule(Protocol):
    """A policy, as far as its memory goes."""

    shelved: Shelved | None

    @property
    def module(self) -> nn.Module:
        """The network, in memory."""


class HasMemory(Protocol):
    """A learner, as far as its memory goes."""

    shelved: Shelved | None

    def tensors(self) -> Iterator[Tensor]:
        """Yield all that come and go."""

    def shelve(self, shelved: Shelved) -> None:
        """Have memory that no other learner has, and let it come and go."""


class Shelved:
    """The tensors of one policy, in memory or in a file.

    Args:
        shelf: Where it is.
        file: Where its tensors go.

    Attributes:
        sources: What says which tensors are the policy's: its network, its learner.
    """

    def __init__(self, shelf: PolicyShelf, file: Path):
        self.shelf, self.sources = shelf, list[Tensors]()
        self._file = file
        # What the file holds, in its order: memory that is let go of, and its size in bytes.
        self._away: list[tuple[torch.UntypedStorage, int]] = []

    @property
    def is_in_memory(self) -> bool:
        """Whether the tensors can be computed with."""
        return not self._away

    def use(self) -> None:
        """See that the tensors are in memory, and stay there for now."""
        self.shelf.use(self)

    def add(self, learner: HasMemory) -> None:
        """Let the memory of the policy's learner come and go with that of the policy."""
        if learner.shelved is not self:
            learner.shelve(self)
            self.sources.append(learner.tensors)

    def put_away(self) -> None:
        """Write the tensors, and let go of their memory.

        Views stay views: it is the memory that they share which is empty until `fetch`.

        Raises:
            ConfigError: if the file cannot be written.
        """
        storages = list(self._storages())
        parts = {str(i): _bytes_of(storage).cpu() for i, storage in enumerate(storages)}
        try:
            save_file(parts, self._file)
        except (OSError, SafetensorError) as error:
            raise _no_room(self._file, "written", error) from None
        self._away = [(storage, storage.nbytes()) for storage in storages]
        for storage in storages:
            storage.resize_(0)

    def fetch(self) -> None:
        """Fill the memory of the tensors again.

        Raises:
            ConfigError: if the file cannot be read.
        """
        try:
            parts = load_file(self._file)
        except (OSError, SafetensorError) as error:
            raise _no_room(self._file, "read", error) from None
        for i, (storage, size) in enumerate(self._away):
            storage.resize_(size)
            _bytes_of(storage).copy_(parts[str(i)])
        self._away = []

    def remove_file(self) -> None:
        """Remove what is written of the policy."""
        self._file.unlink(missing_ok=True)

    def _storages(self) -> Iterator[torch.UntypedStorage]:
        """Yield the memory of the tensors, each piece once."""
        sharing: dict[int, list[Tensor]] = {}
        for source in self.sources:
            for tensor in source():
                if tensor.untyped_storage().nbytes():
                    sharing.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
        for tensors in sharing.values():
            storage = tensors[0].untyped_storage()
            yield storage if storage.resizable() else _moved(tensors)


class PolicyShelf:
    """Keeps no more policies in memory than `capacity`, the least recently used ones in files.

    Policies, networks, learners and optimisers stay the objects that they are, and whoever refers
    to one may go on doing so. Only the memory of tensors comes and goes: that of weights,
    gradients, moments and targets. `Policy.module` and the methods of `Learner` bring it back; a
    network that is held from before and used without them is refused by PyTorch.

    Args:
        capacity: Policies in memory at most.
        folder: Where a folder of this shelf's own is made, which ends with the shelf; None: where
            temporary files go.

    Raises:
        ConfigError: if the folder cannot be made.
    """

    def __init__(self, capacity: int, folder: str | None = None):
        self._capacity = capacity
        try:
            if folder is not None:
                Path(folder).mkdir(parents=True, exist_ok=True)
            self._folder = tempfile.mkdtemp(prefix="policies_", dir=folder)
        except OSError as error:
            raise ConfigError(f"policy_map_cache = {folder!r} cannot be made: {error}") from None
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._in_memory: OrderedDict[Shelved, None] = OrderedDict()  # the last one was used last
        self._latest: Shelved | None = None
        self._numbers = count()
        self._num_put_away = 0

    @property
    def num_in_memory(self) -> int:
        """How many policies are in memory."""
        return len(self._in_memory)

    def add(self, policy: HasModule) -> None:
        """Take in a policy, until nobody refers to it any more."""
        own = Shelved(self, Path(self._folder) / f"{next(self._numbers)}.safetensors")
        module = policy.module
        own.sources.append(lambda: [*module.parameters(), *module.buffers()])
        policy.shelved = own
        weakref.finalize(policy, self._forget, own)
        self.use(own)

    def use(self, shelved: Shelved) -> None:
        """See that a policy's tensors are in memory; the least recently used ones may go."""
        if self._latest is shelved:
            return
        if not shelved.is_in_memory:
            with torch.inference_mode(mode=False), torch.no_grad():
                shelved.fetch()
        self._in_memory[shelved] = None
        self._in_memory.move_to_end(shelved)
        self._latest = shelved
        while len(self._in_memory) > self._capacity:
            oldest = next(iter(self._in_memory))
            with torch.inference_mode(mode=False), torch.no_grad():
                oldest.put_away()
            del self._in_memory[oldest]
            self._num_put_away += 1
            if self._num_put_away % self._capacity == 0:
                _give_back_memory()

    def _forget(self, shelved: Shelved) -> None:
        self._in_memory.pop(shelved, None)
        if self._latest is shelved:
            self._latest = None
        shelved.remove_file()


def shelf_for(
    config: AlgorithmConfig, num_policies: int, policies: Collection[HasModule] = ()
) -> PolicyShelf | None:
    """Return the shelf of a process's policies; None if all of them stay in memory.

    Args:
        config: The algorithm's config, for `policy_map_capacity`.
        num_policies: How many there will be.
        policies: Those there are already: their shelf goes on, or they are taken in.

    Raises:
        ConfigError: if its folder cannot be made.
    """
    capacity = config.policy_map_capacity
    for policy in policies:
        if policy.shelved is not None:
            return policy.shelved.shelf
    if capacity is None or num_policies <= capacity:
        return None
    shelf = PolicyShelf(capacity, config.policy_map_cache)
    for policy in policies:
        shelf.add(policy)
    return shelf


def shelved_policies(
    config: AlgorithmConfig,
    recipes: Recipes,
    device: torch.device,
    shelf: PolicyShelf | None = None,
) -> dict[str, Policy]:
    """Return policies of which `policy_map_capacity` are in memory, by module id.

    Args:
        config: The algorithm's config.
        recipes: Their arguments.
        device: What they compute on.
        shelf: Of the policies that there are already; None makes one if it is needed.
    """
    shelf = shelf or shelf_for(config, len(recipes))
    policies = {}
    for module_id, recipe in recipes.items():
        policies[module_id] = Policy(**recipe, device=device)
        if shelf is not None:
            shelf.add(policies[module_id])
    return policies


def _give_back_memory() -> None:
    """Let the C library give back to the system what is free between small objects.

    glibc keeps it, and the next policy's vectors, which are larger than the gaps, come on top: 500
    policies of which 50 are in memory took what all take. Other libraries have no such call.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _moved(tensors: list[Tensor]) -> torch.UntypedStorage:
    """Give tensors that share memory which PyTorch may not let go of other memory to share.

    It came from an array or a file, or an array was made of it, as `tensor.numpy()` does.
    """
    storage = tensors[0].untyped_storage().clone()
    for tensor in tensors:
        view = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        place = (tensor.storage_offset(), tensor.size(), tensor.stride())
        tensor.data = view.set_(storage, *place)
    return storage


def _bytes_of(storage: torch.UntypedStorage) -> Tensor:
    """Return a view of memory as bytes."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _no_room(file: Path, what: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"policy_map_cache: {file} cannot be {what}: {error}; choose another folder, or a "
        "policy_map_capacity that keeps all policies in memory"
    )


class Shelf(Feature):
    """Keeps some of a process's policies in memory, the others on disk."""

    shelf_for = staticmethod(shelf_for)
    shelved_policies = staticmethod(shelved_policies)


FEATURE = Shelf()
