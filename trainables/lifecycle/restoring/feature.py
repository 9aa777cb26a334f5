"""Restoring as a feature: going on from checkpoints, states and weights of other runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from ray.exceptions import RayError

from trainables.core.checkpoint import (
    POLICIES,
    AnyCheckpoint,
    CheckpointError,
    load_state,
    local_folder,
)
from trainables.core.config.settings import CODE
from trainables.core.data.stored import LazyMapping
from trainables.core.errors import ConfigError
from trainables.core.features import Feature, feature
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
from trainables.lifecycle.checkpoints import CHECKPOINT, in_one_piece
from trainables.lifecycle.restoring.initial_weights import load_initial_weights
from trainables.lifecycle.restoring.other_modules import fitted_state
from trainables.lifecycle.restoring.own_classes import Classes, classes_of
from trainables.lifecycle.restoring.stored_states import with_parts_of_policies
from trainables.lifecycle.restoring.taking_over import set_state
from trainables.runtime.envs.trust import ENVIRONMENT, environment_doubts

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


class Restoring(Feature):
    """Goes on from what another run has left."""

    load_initial_weights = staticmethod(load_initial_weights)
    set_state = staticmethod(set_state)

    def load(self, algorithm: Any, checkpoint: Any) -> Path:
        """Let an algorithm take over a checkpoint; see `Algorithm.load_checkpoint`.

        Returns:
            The checkpoint's folder.
        """
        with local_folder(checkpoint) as folder:
            state = _read_checkpoint(folder)
            what = f"checkpoint {folder}"
            with _damage_told(what, *_OF_WRONG_VALUES):
                if "used_policy_ids" in state and algorithm.agent_groups is not None:
                    algorithm.policy_changes.adopt(state, what)
                algorithm.set_state(_fitted(algorithm, state))
        return folder

    def from_checkpoint(
        self, asked: type[Any], path: AnyCheckpoint, trust: Collection[str], **chosen: Any
    ) -> Any:
        """Rebuild an algorithm from its checkpoint; see `Algorithm.from_checkpoint`.

        Args:
            asked: The class that it is to be restored by.
            path: The checkpoint.
            trust: What it may ask for.
            chosen: Which of several policies are recovered, and how.
        """
        choice = feature("agents").chosen(**chosen)
        try:
            with local_folder(path) as folder:
                trust = trust_in(folder, CHECKPOINT, trust)
                state = _read_checkpoint(folder)
                return _rebuilt(asked, state, trust, f"checkpoint {folder}", choice)
        except NotTrusted as error:
            raise error.with_traceback(None) from None

    def from_state(
        self, asked: type[Any], state: dict[str, Any], trust: Collection[str], what: str
    ) -> Any:
        """Rebuild an algorithm from a state; see `Algorithm.from_state`."""
        return _rebuilt(asked, state, trust, what, feature("agents").chosen())


def _fitted(algorithm: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with what an algorithm has, where it is of one with other policies.

    Raises:
        ConfigError: if it holds none of the algorithm's policies.
    """
    policies = algorithm.policies
    trained, stored = [*algorithm.learner_connectors], state["policies"]
    lacking = [module_id for module_id in policies if module_id not in stored]
    if len(lacking) == len(policies):
        raise ConfigError(
            f"it holds the policies {', '.join(stored)}, and none of {', '.join(lacking)}"
        )
    if lacking:
        logger.warning(
            "the checkpoint does not hold %s: the weights stay those that the run was built "
            "with (initial ones, or those of load_state_path)",
            ", ".join(lacking),
        )
    if trained == [*state["learner_connectors"]] and stored.keys() <= policies.keys():
        return state
    own = in_one_piece(algorithm.state_besides_policies())
    return fitted_state(in_one_piece(state), own, policies, trained)


def _without_others_rows(algorithm: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state without its replay buffer, if other agents are mapped to its policies.

    A buffer has a place for each slot of each of them.
    """
    if "replay" not in state:
        return state
    try:
        algorithm.experience.check_state(state["replay"])
    except ConfigError as error:
        logger.warning(
            "policy_mapping_fn gives the policies other agents than those of the stored replay "
            "buffer, which is left out: %s",
            error,
        )
        return {name: part for name, part in state.items() if name != "replay"}
    return state


def _rebuilt(
    asked: type[Any], state: dict[str, Any], trust: Collection[str], what: str, chosen: Any
) -> Any:
    """Return an algorithm that goes on from a state.

    Args:
        asked: The class that it is to be restored by.
        state: Of `get_state`, or of a checkpoint.
        trust: See `Algorithm.from_checkpoint`.
        what: The state, in words.
        chosen: Which of several policies are recovered, a `Chosen`.
    """
    with _damage_told(what, AttributeError, LookupError, TypeError):
        state = chosen.state(state)  # that a choice cannot be had is no damage
    with _damage_told(what, Exception):
        trust = [trust] if isinstance(trust, str) else trust
        classes = classes_of(state, asked, trust, what)
        settings = _trusted_settings(classes, state["config"], trust, what)
        policies = state["policies"]
        weights = LazyMapping(policies, lambda policy_id: policies[policy_id]["weights"])
        config = classes.config.from_dict({**settings, **chosen.settings})
        algorithm = cast(Any, classes.algorithm)(config=config, weights=weights)
        try:
            fitted = _fitted(algorithm, state)
            if "policy_mapping_fn" in chosen.settings:
                fitted = _without_others_rows(algorithm, fitted)
            algorithm.set_state(fitted)
        except BaseException:
            algorithm.stop()
            raise
    return algorithm


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
    state = load_state(folder, CHECKPOINT)
    with _damage_told(f"checkpoint {folder}", *_OF_WRONG_VALUES):
        names = state["policies"]
        if not {path.name for path in (folder / POLICIES).iterdir()}.issuperset(names):
            raise CheckpointError(f"it has no policies {names!r}")  # nor any outside of it
        return with_parts_of_policies(state, folder)


FEATURE = Restoring()
