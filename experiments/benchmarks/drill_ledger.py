"""`Ledger`: follows what env runners sample to the learner, for the fault drill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainables.algorithm import Algorithm
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.batch import Rollout
from trainables.runtime.learners.group import fetched
from trainables.runtime.sampling.sampling_worker import Episodes

NOT_YET = "one was lost, or it was seen twice"


class Ledger:
    """Follows every slot through its rollouts, from the env runners to the learner.

    The last observation of a rollout opens the slot's next one, to the bit. So each rollout that
    says that it goes on somewhere must find its beginning among the ends that were seen, once; and
    its first observation says which one it is when it is learned from.

    Attributes:
        num_env_steps: Steps that arrived.
        num_learned: Steps that were learned from, each time they were.
        uses: How often each slot's rollout was learned from, by its first observation.
        problems: One line for each thing that is not as it has to be.
    """

    def __init__(self) -> None:
        self.num_env_steps = self.num_learned = 0
        self.uses: dict[bytes, int] = {}
        self.problems: list[str] = []
        self._starts: set[bytes] = set()
        self._ends: set[bytes] = set()
        self._awaited: dict[bytes, int] = {}

    @property
    def num_starts(self) -> int:
        """How often a slot began anew."""
        return len(self._starts)

    def add(self, rollout: Rollout) -> None:
        """Take in a rollout that arrived."""
        self.num_env_steps += rollout.num_env_steps
        for slot, follows in enumerate(rollout.follows):
            first, last = rollout.obs[0, slot].tobytes(), rollout.obs[-1, slot].tobytes()
            if follows and first not in self._ends:
                self.problems.append(f"a rollout goes on where none ended: {NOT_YET}")
                self._awaited[first] = len(self.problems) - 1
            if last in self._awaited:
                late = self._awaited.pop(last)
                self.problems[late] = self.problems[late].replace(NOT_YET, "it came first")
            if not follows:
                if first in self._starts:
                    self.problems.append("a slot's first rollout was seen twice")
                self._starts.add(first)
            self._ends.discard(first)
            self._ends.add(last)
            self.uses.setdefault(first, 0)

    def learn(self, rollout: Rollout) -> None:
        """Take in a rollout that is learned from."""
        self.num_learned += rollout.num_env_steps
        for slot in range(len(rollout.follows)):
            first = rollout.obs[0, slot].tobytes()
            if first not in self.uses:
                self.problems.append("a rollout is learned from that never arrived")
            self.uses[first] = self.uses.get(first, 0) + 1

    def arrived(self, rollouts: dict[str, Rollout], episodes: Episodes) -> None:
        """Take in what was sampled at once."""
        self.add(rollouts[DEFAULT_MODULE_ID])

    def learned(self, rollouts: dict[str, Rollout]) -> None:
        """Take in what is learned from at once."""
        self.learn(rollouts[DEFAULT_MODULE_ID])

    def watch(self, algo: Algorithm) -> None:
        """See all that an algorithm samples and learns from, from now on."""
        group, learners = algo.env_runners, algo.learners
        sample, ready_samples, run = group.sample, group.ready_samples, learners.run

        def watched_sample(**options: Any) -> Any:
            rollouts, episodes = sample(**options)
            self.arrived(rollouts, episodes)
            return rollouts, episodes

        def watched_ready(timeout_s: float | None = None) -> Any:
            samples = ready_samples(timeout_s)
            for one in samples:
                self.arrived(one.fetch(), one.episodes)
            return samples

        def watched_run(function: Callable[..., Any], data: Any, *args: Any) -> Any:
            data = fetched(data)
            for rollouts in data if isinstance(data, list) else [data]:
                self.learned(rollouts)
            return run(function, data, *args)

        watched: dict[str, Any] = {"sample": watched_sample, "ready_samples": watched_ready}
        vars(group).update(watched)
        vars(learners).update(run=watched_run)
