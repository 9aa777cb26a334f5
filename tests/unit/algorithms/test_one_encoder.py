"""Policies with one encoder, as algorithms train, save, change and restore them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from telling_agents import TwoKinds
from tiers import rarely

from trainables import PPO, Policy, on_policy
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError
from trainables.registry import get_algorithm

KINDS = ["PPO", "A2C", "IMPALA", "APPO"]
few_at_first = pytest.mark.parametrize("kind", rarely(KINDS, ["PPO", "APPO"]))
MAPPING = {"agent_0": "a", "agent_1": "b", "agent_2": "c", "*": "d"}
Weights = dict[str, dict[str, np.ndarray]]


def config(kind: str = "PPO", **settings: Any) -> Any:
    made = get_algorithm(kind).config_class().environment("multi_agent_cartpole")
    made.environment(env_config={"num_agents": 4}).env_runners(num_envs_per_env_runner=2)
    made.training(train_batch_size=64, lr=1e-2, model={"fcnet_hiddens": [8]})
    if kind == "PPO":
        made.training(minibatch_size=32, num_epochs=2)
    if kind in ("IMPALA", "APPO"):
        made.env_runners(rollout_fragment_length=16)
    made.multi_agent(policies=[*"abcd"], policy_mapping_fn=MAPPING, shared_encoders=True)
    made.debugging(seed=5).reporting(min_sample_timesteps_per_iteration=64)
    return made.update_from_dict(settings)


def build(kind: str = "PPO", **settings: Any) -> Any:
    return config(kind, **settings).build()


def is_encoder(name: str) -> bool:
    return name.startswith(("encoder.", "value_encoder."))


def encoders(weights: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([value.ravel() for name, value in weights.items() if is_encoder(name)])


def heads(weights: dict[str, np.ndarray]) -> np.ndarray:
    rest = [value.ravel() for name, value in weights.items() if not is_encoder(name)]
    return np.concatenate(rest)


def assert_one_encoder(weights: Weights, group: str) -> None:
    for m in group[1:]:
        assert np.array_equal(encoders(weights[group[0]]), encoders(weights[m]))
        assert not np.array_equal(heads(weights[group[0]]), heads(weights[m]))


def assert_same(one: Weights, other: Weights) -> None:
    assert one.keys() == other.keys()
    for m, own in one.items():
        for name, value in own.items():
            assert np.array_equal(value, other[m][name]), (m, name)


def trains(only: str) -> Any:
    return lambda policy_id, batch=None: policy_id == only


@few_at_first
def test_groups(kind: str) -> None:
    with build(kind, shared_encoders=[["a", "c"], ["d", "b"]]) as algo:
        algo.train()
        weights = algo.get_weights()
    assert_one_encoder(weights, "ac")
    assert_one_encoder(weights, "bd")
    assert not np.array_equal(encoders(weights["a"]), encoders(weights["b"]))


@few_at_first
@pytest.mark.parametrize("learner", "ab")
def test_each_of_them_moves_it(kind: str, learner: str) -> None:
    """While one policy alone is trained, the others' heads stay and their encoder follows."""
    with build(kind, policies_to_train=trains(learner)) as algo:
        before = algo.get_weights()
        algo.train()
        weights = algo.get_weights()
    assert_one_encoder(weights, "abcd")
    for m, own in weights.items():
        assert not np.array_equal(encoders(own), encoders(before[m]))
        assert np.array_equal(heads(own), heads(before[m])) == (m != learner)


@pytest.mark.parametrize("kind", ["PPO", "A2C"])
def test_values_are_those_of_the_encoder_that_acted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever policy has moved it meanwhile."""
    estimate, seen = on_policy.with_advantages, []

    def with_advantages(rollout: Any, policy: Policy, *others: Any, **options: Any) -> Any:
        seen.append(encoders(policy.get_weights()))
        return estimate(rollout, policy, *others, **options)

    monkeypatch.setattr(on_policy, "with_advantages", with_advantages)
    with build(kind) as algo:
        first = encoders(algo.get_weights()["a"])
        algo.training_step()
        assert not np.array_equal(encoders(algo.get_weights()["a"]), first)
    assert len(seen) == 4 and all(np.array_equal(each, first) for each in seen)


def test_they_learn_it_one_after_the_other() -> None:
    """What the second one steps from is what the first one has left."""
    learned = {}
    for rates in ((1e-2, 1e-2), (1e-2, 0.0), (0.0, 1e-2)):
        own = {m: {"lr": lr} for m, lr in zip("ab", rates, strict=True)}
        settings = {"policies_to_train": ["a", "b"], "shared_encoders": [["a", "b"]]}
        with build("A2C", algorithm_config_overrides_per_module=own, **settings) as algo:
            first = encoders(algo.get_weights()["a"])
            algo.training_step()
            learned[rates] = encoders(algo.get_weights()["b"]) - first
    both, of_a, of_b = learned.values()
    # Adam's first step is nearly lr x the sign of the gradient, so that both steps add up.
    moved = (of_a != 0) & (of_b != 0)
    assert moved.mean() > 0.5
    agree = np.isclose(both, of_a + of_b, atol=2e-3)
    assert agree[moved].mean() > 0.8


@few_at_first
def test_policies_that_are_not_trained_keep_theirs(kind: str) -> None:
    with build(kind, policies_to_train=["a", "b"]) as algo:
        before = algo.get_weights()
        assert_one_encoder(before, "ab")
        assert not np.array_equal(encoders(before["a"]), encoders(before["c"]))
        algo.train()
        weights = algo.get_weights()
    assert_one_encoder(weights, "ab")
    for m in "cd":
        assert_same({m: before[m]}, {m: weights[m]})


@few_at_first
def test_encoders_stay_one_and_a_resumed_run_is_equal_to_the_bit(kind: str, tmp_path: Path) -> None:
    with build(kind) as algo:
        first = algo.get_weights()
        assert_one_encoder(first, "abcd")
        algo.train()
        algo.save(str(tmp_path))
        algo.train()
        weights = algo.get_weights()
    assert_one_encoder(weights, "abcd")
    assert not np.array_equal(encoders(first["a"]), encoders(weights["a"]))
    with type(algo).from_checkpoint(str(tmp_path)) as again:
        assert again.config.shared_encoders is True
        again.train()
        assert_same(weights, again.get_weights())
        again.restore(str(tmp_path))
        again.train()
        assert_same(weights, again.get_weights())


@few_at_first
def test_one_that_is_added_takes_it_over(kind: str) -> None:
    with build(kind, policies=[*"abd"], policy_mapping_fn={"agent_0": "a", "*": "b"}) as algo:
        algo.train()
        before = encoders(algo.get_weights()["a"])
        added = algo.add_policy("c", policy_mapping_fn={"agent_0": "a", "*": "c"})
        assert np.array_equal(encoders(added.get_weights()), before)
        for target in algo.learners["c"].targets.values():
            online = algo.learners["c"].module.state_dict()
            for name, value in target.network.state_dict().items():
                assert np.array_equal(value, online[name])
        for _ in range(3):
            algo.train()
        weights = algo.get_weights()
    assert_one_encoder(weights, "abcd")
    assert not np.array_equal(encoders(weights["c"]), before)


@few_at_first
def test_one_that_is_removed_leaves_it_to_the_others(kind: str, tmp_path: Path) -> None:
    mapping = {"agent_0": "b", "agent_1": "c", "*": "d"}  # episodes of the first one would be lost
    with build(kind, policy_mapping_fn=mapping) as algo:
        algo.train()
        before = encoders(algo.get_weights()["a"])
        algo.remove_policy("a")
        assert np.array_equal(encoders(algo.get_weights()["b"]), before)
        algo.train()
        assert_one_encoder(algo.get_weights(), "bcd")
        algo.save(str(tmp_path))
        algo.train()
        weights = algo.get_weights()
    with build(kind, policy_mapping_fn=mapping) as again:
        again.restore(str(tmp_path))
        again.train()
        assert_same(weights, again.get_weights())


def test_groups_follow_who_comes_and_goes(tmp_path: Path) -> None:
    everybody = {"policies_to_train": [*"abcd"]}
    with build(shared_encoders=[["a", "b"], ["c", "d"]], **everybody) as algo:
        algo.remove_policy("d", policy_mapping_fn={"agent_0": "a", "agent_1": "b", "*": "c"})
        assert algo.config.shared_encoders == [["a", "b"]]
        algo.add_policy("e", policies_to_train=[*"abce"], policy_mapping_fn={"*": "e"})
        assert algo.config.shared_encoders == [["a", "b"]]
        algo.add_policy(
            "f", policies_to_train=[*"abcef"], shared_encoders=[["f", "b", "a"], ["e", "c"]]
        )
        weights = algo.get_weights()
        assert_one_encoder(weights, "abf")
        assert_one_encoder(weights, "ce")
        algo.train()
        algo.save(str(tmp_path))
        weights = algo.get_weights()
        with pytest.raises(ConfigError, match="shared_encoders: there is no policy 'z'"):
            algo.add_policy("g", shared_encoders=[["a", "z"]])
        assert [*algo.policies] == [*"abcef"]
    with PPO.from_checkpoint(str(tmp_path)) as again:
        assert again.config.shared_encoders == [["f", "b", "a"], ["e", "c"]]
        again.remove_policy("f")
        again.remove_policy("b")
        assert again.config.shared_encoders == [["e", "c"]]
        assert_same({m: weights[m] for m in "ace"}, again.get_weights())
        again.remove_policy("c")
        assert again.config.shared_encoders is False


def test_weights_of_another_run_give_way_to_it(tmp_path: Path) -> None:
    with build(seed=8, shared_encoders=False) as other:
        folder = other.export_policy_checkpoint(str(tmp_path / "policy"), policy_id="a")
    with build() as algo:
        before = encoders(algo.get_weights()["a"])
        added = algo.add_policy("e", policy=Policy.load(folder), policy_mapping_fn={"*": "e"})
        assert np.array_equal(encoders(added.get_weights()), before)
        assert np.array_equal(heads(added.get_weights()), heads(Policy.load(folder).get_weights()))


def test_weights_that_are_set() -> None:
    with build(seed=8, shared_encoders=False) as other:
        given = other.get_weights()
    with build() as algo:
        before = algo.get_weights()
        algo.set_weights({"b": given["b"]})
        for m, own in algo.get_weights().items():
            assert np.array_equal(encoders(own), encoders(given["b"]))
            assert np.array_equal(heads(own), heads((given if m == "b" else before)[m]))
        algo.env_runners.local_worker().set_weights({"c": given["c"]})
        for own in algo.get_weights().values():
            assert np.array_equal(encoders(own), encoders(given["c"]))
        present = algo.get_weights()
        with pytest.raises(ConfigError, match="'a' and 'b' have one encoder, but are given"):
            algo.set_weights(given)
        assert_same(present, algo.get_weights())


def test_what_a_run_begins_with(tmp_path: Path) -> None:
    with build(seed=8, shared_encoders=False) as other:
        given = other.get_weights()
        folders = {
            m: str(other.export_policy_checkpoint(str(tmp_path / m), policy_id=m)) for m in "bc"
        }
        other.save(str(tmp_path / "all"))
    with build(load_state_path={"b": folders["b"]}) as algo:
        weights = algo.get_weights()
        assert np.array_equal(encoders(weights["a"]), encoders(given["b"]))
        assert np.array_equal(heads(weights["b"]), heads(given["b"]))
    with build(load_state_path={"b": folders["b"], "d": folders["b"]}) as algo:
        assert np.array_equal(encoders(algo.get_weights()["c"]), encoders(given["b"]))
    for path, words in (
        (folders, "gives 'b' and 'c'"),
        (str(tmp_path / "all"), "gives 'a' and 'b'"),
    ):
        with pytest.raises(ConfigError, match=f"load_state_path.*{words}.*shared_encoders"):
            build(load_state_path=path)


def test_a_checkpoint_of_a_run_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with build(seed=8, shared_encoders=False) as other:
        given = other.get_weights()
        other.save(str(tmp_path))
    with caplog.at_level(logging.WARNING, "trainables"), build() as algo:
        algo.restore(str(tmp_path))
        weights = algo.get_weights()
        for m in "abcd":
            assert np.array_equal(encoders(weights[m]), encoders(given["a"]))
            assert np.array_equal(heads(weights[m]), heads(given[m]))
        algo.train()
        assert_one_encoder(algo.get_weights(), "abcd")
    [said] = [r.getMessage() for r in caplog.records if "shared_encoders" in r.getMessage()]
    assert "a; it is now that of b, c, d, too" in said


@pytest.fixture(scope="module")
def two_groups(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Weights]:
    """A checkpoint of two groups, and what it holds."""
    folder = str(tmp_path_factory.mktemp("two_groups"))
    with build(shared_encoders=[["a", "b"], ["c", "d"]]) as algo:
        algo.train()
        algo.save(folder)
        return folder, algo.get_weights()


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({"policy_ids": ["a"], "policy_mapping_fn": {"*": "a"}}, False),
        ({"policy_ids": ["a", "b"], "policy_mapping_fn": {"*": "a"}}, [["a", "b"]]),
        ({"policies_to_train": ["a"]}, False),
        ({"policies_to_train": ["a", "d", "c"]}, [["c", "d"]]),
    ],
)
def test_other_roles(chosen: dict[str, Any], left: Any, two_groups: tuple[str, Weights]) -> None:
    folder, weights = two_groups
    with PPO.from_checkpoint(folder, **chosen) as again:
        assert again.config.shared_encoders == left
        kept = again.get_weights()
        assert_same({m: weights[m] for m in kept}, kept)
        again.train()
        for group in left or []:
            assert_one_encoder(again.get_weights(), "".join(group))


def test_policies_that_a_checkpoint_does_not_hold_take_it_over(tmp_path: Path) -> None:
    with build(policies=[*"bc"], policy_mapping_fn={"agent_0": "b", "*": "c"}) as algo:
        algo.train()
        algo.save(str(tmp_path))
        learned = encoders(algo.get_weights()["b"])
    with build() as more:
        more.restore(str(tmp_path))
        for own in more.get_weights().values():
            assert np.array_equal(encoders(own), learned)


def test_agents_that_see_different_things() -> None:
    with pytest.raises(ConfigError, match=r"shared_encoders: 'a' and 'b' see different things"):
        build(env=TwoKinds)
    with build(env=TwoKinds, shared_encoders=[["a", "c"]]) as algo:
        algo.train()
        with pytest.raises(ConfigError, match=r"shared_encoders: 'a' and 'e' see different things"):
            mapping = {"agent_0": "a", "agent_2": "c", "*": "e"}
            algo.add_policy("e", policy_mapping_fn=mapping, shared_encoders=[["a", "c", "e"]])
        assert [*algo.policies] == [*"abcd"]
        algo.train()


def test_a_damaged_checkpoint_says_so(tmp_path: Path) -> None:
    with build() as algo:
        state = algo.get_state()
    state["config"] = {**state["config"], "shared_encoders": [["a", "z"]]}
    with pytest.raises(CheckpointError, match="shared_encoders: there is no policy 'z'"):
        PPO.from_state(state)
