"""Target networks of K members at once."""

from __future__ import annotations

from collections.abc import Sequence

from trainables.core.learning.flat_parameters import TargetNetwork
from trainables.core.learning.members.lifted_module import LiftedModule
from trainables.core.learning.members.stacked_rows import StackedVectors


class LiftedTarget:
    """The target networks of K members as one, without gradients.

    Each moves its own, which is a row of the memory.

    Args:
        targets: That of each.

    Attributes:
        network: Over rows `[K, B, …]`.

    Raises:
        NotTogetherError: if they cannot be computed together.
    """

    def __init__(self, targets: Sequence[TargetNetwork]):
        flats = [target.flat for target in targets]
        self._stack = StackedVectors(flats)
        networks = [target.network for target in targets]
        of_groups = {"it": flats[0].parameters}, {"it": self._stack.memory}
        self._module = LiftedModule(networks[0], *of_groups, networks)
        self.network = self._module.bound()  # views that show what the memory holds later, too

    def take_in(self) -> None:
        """Bring in what members have elsewhere."""
        self._stack.take_in()
        self._module.take_in()
