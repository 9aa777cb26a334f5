"""How an algorithm takes over the state of a run: its own from before, or another trial's."""

from __future__ import annotations

from typing import Any

from trainables.core.logs import logger
from trainables.lifecycle.policies import PolicySet
from trainables.runtime.envs.make import env_name
from trainables.runtime.random_streams import draw_seed, random_streams


def set_state(algorithm: Any, state: dict[str, Any]) -> None:
    """Take over what another run has learned; see `Algorithm.set_state`."""
    connectors = algorithm.learner_connectors
    for module_id, own in connectors.items():  # before anything is changed
        own.check_state(state["learner_connectors"][module_id])
    algorithm.learners.check_state(state["learners"])
    for module_id, policy in algorithm.policies.items():
        if module_id in state["policies"]:
            policy.set_state(state["policies"][module_id])
    PolicySet(algorithm).go_on_with_encoders(state["policies"], what="what is taken over")
    algorithm.set_learned_state(state["learned"])
    for module_id, own in connectors.items():
        own.set_state(state["learner_connectors"][module_id])
    algorithm.counters = state["counters"]
    algorithm.episodes.set_state(state["episodes"])
    algorithm.callbacks.set_state(state.get("callbacks", {}))
    for name, used in algorithm.running_features.items():
        if name in state:
            used.set_state(state[name])
    algorithm.evaluation.latest = dict(state["evaluation"])
    # A clone, too, goes on where its donor's curriculum was; resets below begin the task.
    algorithm.env_runners.set_tasks(state.get("env_tasks", []))
    is_clone = algorithm.is_clone_of(state)
    algorithm.learners.set_state(state["learners"], with_random=not is_clone)
    if is_clone:
        _become_another_run(algorithm, int(state["env_runners"]["weights_version"]))
    else:
        _go_on(algorithm, state)


def _become_another_run(algorithm: Any, weights_version: int) -> None:
    seeds = algorithm.clone_streams()
    algorithm.learners.reseed(draw_seed(seeds.learner))
    # Its donor's samples, which it may have, are of these versions.
    algorithm.env_runners.weights_version = weights_version
    algorithm.env_runners.sync_weights()
    algorithm.env_runners.reseed(seeds.env_runners)


def _go_on(algorithm: Any, state: dict[str, Any]) -> None:
    """Go on with the random streams and episodes of the same run."""
    seed = algorithm.seed_entropy = state["seed_entropy"]
    algorithm.evaluation.seed = random_streams(seed).evaluation
    if not algorithm.env_runners.set_state(state["env_runners"]):
        # Not on the streams that the run began with: it would replay its first episodes.
        algorithm.env_runners.reseed(random_streams(seed, algorithm.iteration).env_runners)
        if state["env_runners"]["runners"]:
            logger.warning(
                "%s cannot give its state (get_state/set_state): the resumed run starts new "
                "episodes",
                env_name(algorithm.config.env),
            )
