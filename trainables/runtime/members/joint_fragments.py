"""Fragments that several env runners of a process sample at once, each as it does alone.

K policies act by one batched product and K x N slots are stepped as one; every runner's random
streams, of actions and of environments, are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from trainables.core.learning.members.company import NotTogetherError
from trainables.core.learning.members.lifted_module import (
    LiftedModule,
    check_alike,
    features_of,
)
from trainables.core.networks.modules import PolicyModule
from trainables.runtime.envs.joint_slots import JointSlots, joint_slots
from trainables.runtime.members.fragment_request import FragmentRequest
from trainables.runtime.members.hosted_env_runner import HostedEnvRunner
from trainables.runtime.sampling.recording import Running, StepColumns
from trainables.runtime.sampling.row_checks import check_observations, check_rewards
from trainables.runtime.sampling.sampling_worker import Episodes


class JointFragments:
    """Samples fragments of K env runners of N slots; slot n of runner k is the joint k N + n.

    Args:
        runners: With fragments of one `key`.

    Raises:
        NotTogetherError: if their environments cannot be stepped as one.
    """

    def __init__(self, runners: Sequence[HostedEnvRunner]):
        self._runners = list(runners)
        self._recorders = [next(iter(runner.recorders.values())) for runner in self._runners]
        self._policies = [recorder.policy for recorder in self._recorders]
        first = self._policies[0]
        slots = joint_slots([runner.env for runner in self._runners])
        if slots is None:
            kind = type(self._runners[0].env).__name__
            raise NotTogetherError(f"environments of a {kind} are stepped one by one")
        self._slots: JointSlots = slots
        self._width = self._runners[0].num_envs
        parameters = list(first.module.acting_parameters())
        vector = torch.cat([p.detach().flatten() for p in parameters])
        self._vector = vector.new_empty((len(self._runners), len(vector)))
        self._module = LiftedModule(first.module, {"all": parameters}, {"all": self._vector})
        self._is_checked = False

    @property
    def busy_with(self) -> HostedEnvRunner | None:
        """Whose environments are stepped now, if it is those of one."""
        at = getattr(self._slots, "at", None)
        return None if at is None else self._runners[at]

    @torch.inference_mode()
    def run(self, requests: Sequence[FragmentRequest]) -> list[Any]:
        """Sample a fragment of each runner.

        Returns:
            What `HostedEnvRunner.fragment_alone` returns of each, or the exception that it raises.

        Raises:
            NotTogetherError: before anything was sampled, if the policies do not act apart.
        """
        num_steps, first = requests[0].num_steps, self._policies[0]
        for row, policy in zip(self._vector, self._policies, strict=True):
            row.copy_(torch.cat([p.flatten() for p in policy.module.acting_parameters()]))
        module = cast(PolicyModule, self._module.bound())
        count, width = len(self._runners), self._width
        total = count * width
        layout, distribution = first.observations.layout, first.distribution
        obs = layout.empty((num_steps + 1, total))
        obs[0] = np.concatenate([recorder.actor.rows for recorder in self._recorders])
        if not self._is_checked:
            features = self._features(obs[0])
            modules = [policy.module for policy in self._policies]
            check_alike(
                partial(module.dist_inputs, features),
                [partial(m.dist_inputs, features_of(features, k)) for k, m in enumerate(modules)],
            )
            self._is_checked = True
        for recorder in self._recorders:
            recorder.begin(num_steps)
        columns, episodes = StepColumns(num_steps, total), [Episodes() for _ in self._runners]
        actions = torch.empty(
            (num_steps, count, width, *distribution.action_shape), dtype=distribution.action_dtype
        )
        inputs = torch.empty((num_steps, count, width, distribution.num_inputs))
        running = [runner.running for runner in self._runners]
        resets_next, returns, lengths = map(np.concatenate, zip(*running, strict=True))
        failures: dict[int, Exception] = {}
        self._slots.load()
        for t, (rewards, terminated, truncated, valid) in enumerate(columns.rows()):
            inputs[t] = module.dist_inputs(self._features(obs[t]))
            actions[t] = self._drawn(inputs[t])
            env_actions = first.for_env(actions[t].flatten(0, 1))
            shown, rewards[:], terminated[:], truncated[:] = self._slots.step(env_actions)
            np.logical_not(resets_next, out=valid)
            rewards[resets_next] = 0.0  # nobody acted, whatever an environment gives
            self._check(failures, check_rewards, rewards, lengths)
            lengths += valid
            layout.write(obs[t + 1], shown)
            self._check_obs(failures, obs[t + 1], lengths)
            returns += rewards
            is_first, resets_next = resets_next, terminated | truncated
            if np.count_nonzero(resets_next):
                ended = np.flatnonzero(resets_next & (lengths > 0))
                for slot in ended.tolist():
                    own = episodes[slot // width]
                    own.returns.append(float(returns[slot]))
                    own.lengths.append(int(lengths[slot]))
                returns[resets_next] = 0
                lengths[resets_next] = 0
        self._slots.store()
        failures = {**failures, **self._slots.failures}
        found: list[Any] = []
        for k, (runner, recorder) in enumerate(zip(self._runners, self._recorders, strict=True)):
            if k in failures:
                found.append(failures[k])
                continue
            place = slice(k * width, (k + 1) * width)
            own_actions, own_inputs = actions[:, k].clone(), inputs[:, k].clone()
            recorder.take_over(obs[:, place].copy(), own_actions, own_inputs, is_first[place])
            rollouts = runner.end_fragment(
                columns.of(place),
                Running(resets_next[place].copy(), returns[place].copy(), lengths[place].copy()),
            )
            found.append((rollouts, episodes[k]))
        return found

    def _features(self, rows: np.ndarray) -> Any:
        """Return what the policies see of the rows of all slots, `[K, N, …]`."""
        policies = self._policies
        own = rows.reshape(len(policies), self._width, *rows.shape[1:])
        if policies[0].observations.filter is None:
            return policies[0].features(own)
        each = [policy.features(part) for policy, part in zip(policies, own, strict=True)]
        if isinstance(each[0], dict):
            return {name: torch.stack([one[name] for one in each]) for name in each[0]}  # type: ignore[index]
        return torch.stack(each)  # type: ignore[arg-type]

    def _drawn(self, inputs: Tensor) -> Tensor:
        """Return each policy's actions, drawn from its own stream, `[K, N, …]`."""
        actors = [recorder.actor for recorder in self._recorders]
        distribution = self._policies[0].distribution
        if not actors[0].explores:
            return distribution.mode(inputs)
        if not self._policies[0].explorer.uniform:
            noise = [
                distribution.noise(own, actor.generator)
                for own, actor in zip(inputs, actors, strict=True)
            ]
            if noise[0] is not None:
                return distribution.sample_by(inputs, torch.stack(noise))  # type: ignore[arg-type]
        return torch.stack(
            [
                policy.explorer.act(own, actor.generator)
                for policy, own, actor in zip(self._policies, inputs, actors, strict=True)
            ]
        )

    def _check(
        self, failures: dict[int, Exception], check: Any, values: np.ndarray, lengths: np.ndarray
    ) -> None:
        """Look at what all slots gave; whoever gave no finite number fails, alone."""
        try:
            check(values, lengths, self._recorders[0].actor.place)
            return
        except Exception:
            pass
        for k, recorder in enumerate(self._recorders):
            place = slice(k * self._width, (k + 1) * self._width)
            try:
                check(values[place], lengths[place], recorder.actor.place)
            except Exception as error:
                failures.setdefault(k, error)

    def _check_obs(
        self, failures: dict[int, Exception], rows: np.ndarray, lengths: np.ndarray
    ) -> None:
        observations = self._policies[0].observations

        def check(values: np.ndarray, steps: np.ndarray, place: Any) -> None:
            check_observations(observations, values, steps, place)

        self._check(failures, check, rows, lengths)
