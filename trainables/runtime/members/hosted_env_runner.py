"""`HostedEnvRunner`: an env runner that samples together with those of other trials."""

from __future__ import annotations

from functools import cache
from typing import Any

from trainables.core.data.batch import Rollout
from trainables.core.learning.members.company import company
from trainables.runtime.members.fragment_request import FragmentRequest
from trainables.runtime.sampling.env_runner import EnvRunner
from trainables.runtime.sampling.recording import Running, StepColumns
from trainables.runtime.sampling.sampling_worker import Episodes


class HostedEnvRunner(EnvRunner):
    """Asks the company that it is in for its fragments; without any it samples them itself."""

    def fragment(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        others = company()
        if others is None:
            return super().fragment(num_steps)
        found: tuple[dict[str, Rollout], Episodes] = others.ask(FragmentRequest(self, num_steps))
        return found

    def fragment_alone(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        """Sample a fragment that no other member takes part in."""
        return super().fragment(num_steps)

    def why_alone(self) -> str | None:
        """Return why its slots are not stepped together with others'; None if they may be."""
        if len(self.recorders) > 1:
            return "several policies act in its slots"
        if self._hooks is not None:
            return "callbacks see its steps"
        if self._output is not None:
            return "its steps are recorded"
        if self.config.restart_failed_sub_environments:
            return "environments that fail are replaced, restart_failed_sub_environments"
        return None

    @property
    def running(self) -> Running:
        """Where its slots are between two fragments."""
        return Running(self._resets_next, self._returns, self._lengths)

    def end_fragment(self, columns: StepColumns, running: Running) -> dict[str, Rollout]:
        """Return the rollouts of a fragment that was sampled with others'; go on from there.

        Args:
            columns: What its environment said.
            running: Where its slots are.
        """
        self._resets_next, self._returns, self._lengths = running
        return self._rollouts(columns)


@cache
def hosted_env_runner(kind: Any) -> type[HostedEnvRunner]:
    """Return the class of a host's env runners that are of a class elsewhere."""
    if issubclass(kind, HostedEnvRunner):
        return kind
    if kind is EnvRunner:
        return HostedEnvRunner
    named = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(kind.__name__, (HostedEnvRunner, kind), named)
