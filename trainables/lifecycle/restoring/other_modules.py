"""States of runs with other policies: what of them fits, and what begins anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trainables.runtime.callbacks.custom_metrics import OWN

# What learns and is stored by module, beside policies.
_BY_MODULE = ("learners", "learned", "learner_connectors", "replay")
_NO_EPISODES: dict[str, Any] = {"runners": [], "restarts": [], "pending_moments": []}


def fitted_state(
    state: dict[str, Any], own: Mapping[str, Any], policies: Collection[str], trained: list[str]
) -> dict[str, Any]:
    """Return a run's state for a run with other policies, or with others of them trained.

    What a policy has in both goes on; what only this run has stays as it is.

    Args:
        state: Of the other run, see `Algorithm.get_state`.
        own: This run's, besides policies.
        policies: Ids of this run's policies with networks.
        trained: Ids of those that this run trains.
    """
    before = [*state["learner_connectors"]]
    known = {*before, *state["policies"]}
    fitted = {**state, "policies": {m: p for m, p in state["policies"].items() if m in policies}}
    for name in _BY_MODULE:
        if name in state and name in own:
            fitted[name] = _merged(own[name], state[name], known, before, trained)
    gone = tuple(f"{OWN}module/{m}/" for m in known if m not in policies)
    logged = [metric for metric in state["episodes"]["custom"] if not metric[0].startswith(gone)]
    fitted["episodes"] = {**state["episodes"], "custom": logged}
    return without_episodes(fitted, fitted["config"])


def without_episodes(state: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Return a state with other settings, whose running episodes are dropped.

    Args:
        state: See `Algorithm.get_state`.
        config: The settings.
    """
    return {**state, "config": config, "env_runners": {**state["env_runners"], **_NO_EPISODES}}


def _merged(
    own: Any, stored: Any, known: Collection[str], before: list[str], trained: list[str]
) -> Any:
    """Return a stored value with what this run has of modules that are not stored.

    A value that is one's by module is stored without ids where there is one module, see
    `core.data.stored`.

    Args:
        own: This run's value at the same place.
        stored: The stored value.
        known: Ids of all modules of the state.
        before: Those of them that were trained.
        trained: Ids of the modules that this run trains.
    """
    if isinstance(stored, dict) and stored and {*stored} <= {*known}:
        fresh = {} if own is None else own
        if isinstance(fresh, dict) and {*fresh} <= {*trained}:
            return {m: stored.get(m, fresh.get(m)) for m in trained if m in stored or m in fresh}
        return stored.get(trained[0], own)  # by ids there, of one module here
    if isinstance(own, dict) and own and {*own} == {*trained} and len(before) == 1:
        return {**own, **{m: stored for m in before if m in own}}
    if isinstance(stored, dict) and isinstance(own, dict):
        merged = {n: _merged(own.get(n), p, known, before, trained) for n, p in stored.items()}
        return {**own, **merged}
    is_of_another = len(before) == len(trained) == 1 and before != trained
    return own if is_of_another and own is not None else stored
