"""How an algorithm is saved and restored: JSON and safetensors, never a pickle."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from ray.exceptions import RayError

from trainables import registry
from trainables.core.checkpoint import (
    CHECKPOINT_FILE,
    POLICIES,
    AnyCheckpoint,
    CheckpointError,
    load_state,
    local_folder,
    policy_folder,
    save_state,
)
from trainables.core.config.agents.agent_mapping import PoliciesToTrain
from trainables.core.config.settings import CODE
from trainables.core.data.lazy_mapping import LazyMapping
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.own_folders import trust_in
from trainables.core.trust import (
    Doubt,
    NotTrusted,
    doubts_of,
    refuse,
    resolved,
    untrusted_names,
)
from trainables.lifecycle.agents import encoder_sharing
from trainables.lifecycle.agents.chosen_policies import Chosen
from trainables.lifecycle.folder_trainable import running
from trainables.lifecycle.policies import PolicyAccess
from trainables.lifecycle.restoring.other_modules import fitted_state
from trainables.lifecycle.restoring.own_classes import Classes, classes_of, named_classes
from trainables.lifecycle.restoring.stored_states import (
    in_one_piece,
    with_parts_of_policies,
    write_learners,
)
from trainables.runtime.envs.make import env_name
from trainables.runtime.envs.trust import ENVIRONMENT, environment_doubts
from trainables.runtime.random_streams import RandomStreams, draw_seed

_STATE = "checkpoint"


class Checkpointing(PolicyAccess):
    """Base of `Algorithm`: its whole state, in memory and on disk."""

    @running
    def get_state(self) -> dict[str, Any]:
        """Return everything that `from_state` needs to go on exactly."""
        # First: policies take over what learners have.
        state = in_one_piece(self.state_besides_policies())
        policies = {module_id: policy.get_state() for module_id, policy in self.policies.items()}
        return {**state, "policies": policies}

    def state_besides_policies(self) -> dict[str, Any]:
        """Return what a checkpoint holds besides the policies, each of which has its own folder."""
        return {
            "algorithm": registry.name_of(type(self)),
            **named_classes(type(self), type(self.config)),
            "config": self.config.to_dict(),
            "trial_id": self._own_trial_id,
            "seed_entropy": self.seed_entropy,
            "counters": {
                "iteration": self._iteration,
                "time_total_s": self._time_total,
                "num_env_steps_sampled": self.num_env_steps_sampled,
                "num_agent_steps_sampled": self.num_agent_steps_sampled,
                "num_env_steps_trained": self.num_env_steps_trained,
                "num_training_steps": self.num_training_steps,
            },
            "episodes": self.episodes.get_state(),
            "callbacks": self.callbacks.get_state(),
            "evaluation": self.evaluation.latest,
            "learners": self.learners.get_state(),
            "env_runners": self.env_runners.get_state(),
            "env_tasks": self.env_runners.tasks,
            "learned": self.get_learned_state(),
            **({} if self._policy_changes is None else self._policy_changes.state()),
            **{name: feature.get_state() for name, feature in self.running_features.items()},
            "learner_connectors": {m: c.get_state() for m, c in self.learner_connectors.items()},
        }

    @running
    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what another run has learned; the settings of this one stay.

        The same run goes on with its random streams and episodes. A clone (another trial's state,
        as in population-based training) gets new ones. A policy that the state does not hold keeps
        the weights that it has.
        """
        for module_id, connectors in self.learner_connectors.items():  # before anything is changed
            connectors.check_state(state["learner_connectors"][module_id])
        self.learners.check_state(state["learners"])
        for module_id, policy in self.policies.items():
            if module_id in state["policies"]:
                policy.set_state(state["policies"][module_id])
        encoder_sharing.go_on_with(
            self.config, self.trained_policies, state["policies"], what="what is taken over"
        )
        self.set_learned_state(state["learned"])
        for module_id, connectors in self.learner_connectors.items():
            connectors.set_state(state["learner_connectors"][module_id])
        counters = state["counters"]
        self._iteration = counters["iteration"]
        self._time_total = counters["time_total_s"]
        self.num_env_steps_sampled = counters["num_env_steps_sampled"]
        self.num_agent_steps_sampled = counters.get("num_agent_steps_sampled", 0)
        self.num_env_steps_trained = counters["num_env_steps_trained"]
        self.num_training_steps = counters["num_training_steps"]
        if self.config.needs_env:  # else no result has it
            self._timesteps_total = self.num_env_steps_sampled  # type: ignore[assignment]
        self.episodes.set_state(state["episodes"])
        self.callbacks.set_state(state.get("callbacks", {}))
        for name, feature in self.running_features.items():
            if name in state:
                feature.set_state(state[name])
        self.evaluation.latest = dict(state["evaluation"])
        # A clone, too, goes on where its donor's curriculum was; resets below begin the task.
        self.env_runners.set_tasks(state.get("env_tasks", []))
        is_clone = self._is_clone_of(state)
        self.learners.set_state(state["learners"], with_random=not is_clone)
        if is_clone:
            self._become_another_run(int(state["env_runners"]["weights_version"]))
            return
        self.seed_entropy = state["seed_entropy"]
        self.evaluation.seed = self._random_streams().evaluation
        if not self.env_runners.set_state(state["env_runners"]):
            # Not on the streams that the run began with: it would replay its first episodes.
            self.env_runners.reseed(self._random_streams(self._iteration).env_runners)
            if state["env_runners"]["runners"]:
                logger.warning(
                    "%s cannot give its state (get_state/set_state): the resumed run starts new "
                    "episodes",
                    env_name(self.config.env),
                )

    def _fitted(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a state with what this run has, where it is of one with other policies.

        Raises:
            ConfigError: if it holds none of this run's policies.
        """
        trained, stored = [*self.learner_connectors], state["policies"]
        lacking = [module_id for module_id in self.policies if module_id not in stored]
        if len(lacking) == len(self.policies):
            raise ConfigError(
                f"it holds the policies {', '.join(stored)}, and none of {', '.join(lacking)}"
            )
        if lacking:
            logger.warning(
                "the checkpoint does not hold %s: the weights stay those that the run was built "
                "with (initial ones, or those of load_state_path)",
                ", ".join(lacking),
            )
        if trained == [*state["learner_connectors"]] and stored.keys() <= self.policies.keys():
            return state
        own = in_one_piece(self.state_besides_policies())
        return fitted_state(in_one_piece(state), own, self.policies, trained)

    def _become_another_run(self, weights_version: int) -> None:
        seeds = self._clone_streams()
        self.learners.reseed(draw_seed(seeds.learner))
        # Its donor's samples, which it may have, are of these versions.
        self.env_runners.weights_version = weights_version
        self.env_runners.sync_weights()
        self.env_runners.reseed(seeds.env_runners)

    def _clone_streams(self) -> RandomStreams:
        """Return streams of its own for a clone that has just taken over its donor's counters."""
        return self._random_streams(zlib.crc32(self.trial_id.encode()), self._iteration)

    def _is_clone_of(self, state: dict[str, Any]) -> bool:
        """Tell whether the state is another trial's, as in population-based training."""
        theirs = state["trial_id"]
        return None not in (theirs, self._own_trial_id) and theirs != self._own_trial_id

    def get_learned_state(self) -> dict[str, Any]:
        """Return what an algorithm has learned besides weights, e.g. an adaptive coefficient."""
        return {}

    def set_learned_state(self, state: dict[str, Any]) -> None:
        """Take over `get_learned_state`'s."""

    @running
    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write JSON and safetensors. `checkpoint.json` comes last: without it there is none."""
        folder = Path(checkpoint_dir)
        # A checkpoint that is written over is none until the new one is whole.
        (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
        # First: policies take over what learners have.
        state, kept = self.state_besides_policies(), self._kept_policies()
        state["policies"], metadata = sorted(kept), self._policy_metadata()
        files = write_learners(folder, state)
        for policy_id in kept:
            path = self._save_policy(policy_id, str(policy_folder(folder, policy_id)), metadata)
            if self.config.export_native_model_files:
                self.export_policy_model(str(path), policy_id, with_env=False)
            files += [file for file in path.iterdir() if file.is_file()]
        save_state(folder, _STATE, state, files)
        logger.info("saved checkpoint %s, after %d env steps", folder, self.num_env_steps_sampled)

    def _kept_policies(self) -> list[str]:
        """Return the ids of the policies that checkpoints hold."""
        if not self.config.checkpoint_trainable_policies_only:
            return [*self.policies]
        is_trained = PoliciesToTrain(self.config.policies_to_train, fixed=())
        return [module_id for module_id in self.learner_connectors if is_trained(module_id)]

    def _without_others_rows(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a state without its replay buffer, if other agents are mapped to its policies.

        A buffer has a place for each slot of each of them.
        """
        if "replay" not in state:
            return state
        try:
            cast(Any, self).experience.check_state(state["replay"])
        except ConfigError as error:
            logger.warning(
                "policy_mapping_fn gives the policies other agents than those of the stored replay "
                "buffer, which is left out: %s",
                error,
            )
            return {name: part for name, part in state.items() if name != "replay"}
        return state

    @running
    def load_checkpoint(self, checkpoint: Any) -> None:
        """Read what `save_checkpoint` wrote."""
        with local_folder(checkpoint) as folder:
            state = _read_checkpoint(folder)
            with _damage_told(f"checkpoint {folder}", *_OF_WRONG_VALUES):
                if "used_policy_ids" in state and self.agent_groups is not None:
                    self.policy_changes.adopt(state, f"checkpoint {folder}")
                self.set_state(self._fitted(state))
        logger.info("loaded checkpoint %s, of %d env steps", folder, self.num_env_steps_sampled)
        self.callbacks("on_checkpoint_loaded")

    @classmethod
    def from_checkpoint(
        cls,
        path: AnyCheckpoint,
        trust: Collection[str] = (),
        *,
        policy_ids: Collection[str] | None = None,
        policy_mapping_fn: Any = None,
        policies_to_train: Any = None,
    ) -> Any:
        """Rebuild an algorithm from its checkpoint and go on from there.

        A class of one's own is rebuilt as that class if this is called on it, if it was registered
        (`register_algorithm`), or if `trust` names it. Checkpoints of before this was recorded are
        of the nearest algorithm of this package.

        Args:
            path: A checkpoint folder, Ray's `Checkpoint` (`results.get_best_result().checkpoint`),
                or what `save` returned.
            trust: What the checkpoint may ask for besides harmless settings: code by its name,
                `module:qualname` (an environment for example), anything else by the setting's, e.g.
                "record_env". The error names what is missing. Without it, loading imports no code,
                writes no folder, sets no environment variable, and starts no more processes than
                the settings' declarations call harmless.
            policy_ids: The policies to recover, of several; None: all. What is stored of the others
                is left out, and `policies_to_train` trains those that are left. Policies written by
                hand stay only if they are named.
            policy_mapping_fn: Which policy acts for an agent from here on, in place of the setting
                that is stored: see there. It must be given where that was a lambda or another
                function without a name by which it is found, or names a policy that is left out. A
                stored replay buffer is left out if it gives a policy more agents, or fewer.
            policies_to_train: Which policies are trained from here on: see the setting. None: as
                stored. One that was not trained before begins with a new optimizer.

        With any of the last three, running episodes are dropped.

        Raises:
            ConfigError: if there is no such policy, or the settings do not fit together.
            CheckpointError: if it is damaged or asks for what is not trusted.
        """
        chosen = Chosen(policy_ids, policy_mapping_fn, policies_to_train)
        try:
            with local_folder(path) as folder:
                trust = trust_in(folder, _STATE, trust)
                state = _read_checkpoint(folder)
                algorithm = cls._rebuilt(state, trust, f"checkpoint {folder}", chosen)
        except NotTrusted as error:
            raise error.with_traceback(None) from None
        algorithm.callbacks("on_checkpoint_loaded")
        return algorithm

    @classmethod
    def from_state(
        cls, state: dict[str, Any], trust: Collection[str] = (), what: str = "the state"
    ) -> Any:
        """Rebuild an algorithm from `get_state`'s; see `from_checkpoint`."""
        return cls._rebuilt(state, trust, what, Chosen())

    @classmethod
    def _rebuilt(
        cls, state: dict[str, Any], trust: Collection[str], what: str, chosen: Chosen
    ) -> Any:
        with _damage_told(what, AttributeError, LookupError, TypeError):
            state = chosen.state(state)  # that a choice cannot be had is no damage
        with _damage_told(what, Exception):
            trust = [trust] if isinstance(trust, str) else trust
            classes = classes_of(state, cls, trust, what)
            settings = _trusted_settings(classes, state["config"], trust, what)
            policies = state["policies"]
            weights = LazyMapping(policies, lambda policy_id: policies[policy_id]["weights"])
            config = classes.config.from_dict({**settings, **chosen.settings})
            algorithm = cast(Any, classes.algorithm)(config=config, weights=weights)
            try:
                fitted = algorithm._fitted(state)
                if "policy_mapping_fn" in chosen.settings:
                    fitted = algorithm._without_others_rows(fitted)
                algorithm.set_state(fitted)
            except BaseException:
                algorithm.stop()
                raise
        return algorithm


# What a value that makes no sense leads to. Not an actor that dies: Tune tries that again.
_OF_WRONG_VALUES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,  # PyTorch's, of shapes
    TypeError,
    ValueError,
)


@contextmanager
def _damage_told(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Make one `CheckpointError` of whatever the contents of a checkpoint lead to."""
    try:
        yield
    except RayError as error:
        if Exception not in errors:
            raise
        raise CheckpointError(f"{what} cannot be taken over: {error}") from error
    except errors as error:
        if isinstance(error, CheckpointError) and what in str(error):
            raise
        told = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{what} cannot be taken over: {told}") from error


def _trusted_settings(
    classes: Classes, given: dict[str, Any], trust: Collection[str], what: str
) -> dict[str, Any]:
    """Return a checkpoint's settings, with the callables that they name.

    Raises:
        CheckpointError: naming every class and setting that is not harmless and not in `trust`.
    """
    vouched = classes.vouched.settings()
    if classes.doubts:  # only for the error: what the nearest class of ours knows of it
        settings = classes.vouched.check({n: v for n, v in given.items() if n in vouched})
        refuse([*classes.doubts, *_doubts(classes, {**given, **settings}, vouched)], trust, what)
    settings = classes.config.check(given)  # first: older names become settings
    refuse(_doubts(classes, settings, vouched), trust, what)
    checked: dict[str, Any] = resolved(settings, trust, what)
    return checked


def _doubts(
    classes: Classes, settings: dict[str, Any], vouched: Collection[str]
) -> Iterator[Doubt]:
    """Yield what of the settings needs trust: of those of a trusted class alone, names of code."""
    yield from doubts_of(
        classes.vouched, {n: v for n, v in settings.items() if n in vouched}, besides=ENVIRONMENT
    )
    yield from environment_doubts(settings)
    evaluation = settings.get("evaluation_config", {})
    if not evaluation.keys().isdisjoint(ENVIRONMENT):
        yield from environment_doubts({**settings, **evaluation}, "evaluation_config.")
    for name, value in settings.items():
        if name not in vouched:
            yield from (Doubt(name, code, CODE, code) for code in untrusted_names(value))


def _read_checkpoint(folder: Path) -> dict[str, Any]:
    state = load_state(folder, _STATE)
    with _damage_told(f"checkpoint {folder}", *_OF_WRONG_VALUES):
        names = state["policies"]
        if not {path.name for path in (folder / POLICIES).iterdir()}.issuperset(names):
            raise CheckpointError(f"it has no policies {names!r}")  # nor any outside of it
        return with_parts_of_policies(state, folder)
