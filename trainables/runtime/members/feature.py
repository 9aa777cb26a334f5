"""Several trials of a process as one tensor program: the feature `batching`.

No setting asks for it: a host makes its trials with it, see `using`.
"""

from __future__ import annotations

from typing import Any

from trainables.core.features import Feature
from trainables.core.learning.learner import Learner
from trainables.core.learning.members.hosted_learner import hosted_learner, why_alone
from trainables.core.learning.members.request import why_not_faster
from trainables.runtime.members.hosted_env_runner import hosted_env_runner
from trainables.runtime.sampling.env_runner import EnvRunner


class Batching(Feature):
    """Makes learners and env runners that ask the company that they are in."""

    def replace_learner(self, kind: type[Any]) -> type[Any]:
        return hosted_learner(kind)  # type: ignore[arg-type]  # classes have hashes

    def replace_env_runner(self, kind: type[Any]) -> type[Any]:
        if getattr(kind, "fragment", None) is not EnvRunner.fragment:  # it samples in another way
            return kind
        return hosted_env_runner(kind)  # type: ignore[arg-type]

    def why_alone(self, algorithm: Any) -> str | None:
        """Return why updates of an algorithm are not made with those of others; None: they are."""
        config = algorithm.config
        if not config.learns_together:
            return f"updates of {type(algorithm).__name__} are not written for several trials"
        if config.num_learners:
            return f"its learners are actors, num_learners = {config.num_learners}"
        rows = getattr(config, "minibatch_size", None) or config.train_batch_size_per_learner
        learners: list[Learner] = [*algorithm.learners.worker.learners.values()]
        reasons = (why_alone(one) or why_not_faster(one, rows) for one in learners)
        return next((reason for reason in reasons if reason), None)


FEATURE = Batching()
