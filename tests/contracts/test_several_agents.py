"""What every algorithm must do that trains the policies of several agents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recorded_data import recorded
from short_runs import short_settings_of
from small_runs import (
    compares_actions,
    samples,
    trusted,
    without_clocks,
)
from telling_agents import PATTERNS
from tiers import covering, rarely

from trainables import Algorithm
from trainables.core.config.agents.module_overrides import module_settings
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

WALK = "fakes:limited_walk"  # with slots of one kind, whether of one agent or several
GAME: dict[str, Any] = {"env": "multi_agent_cartpole", "env_config": {"num_agents": 3}}
TWO: dict[str, Any] = {
    "policies": ["a", "b"],
    "policy_mapping_fn": {"agent_0": "a", "*": "b"},
}
SCRIPTED: dict[str, Any] = {
    "env": PATTERNS["together"],
    "env_config": {"num_agents": 3, "length": 4},
    "clip_rewards": True,
}
# Settings of b, of which each changes what it learns; those that an algorithm has.
OWN: dict[str, Any] = {
    "lr": 3e-3,
    "gamma": 0.5,
    "lambda_": 0.3,
    "entropy_coeff": 0.5,
    "vf_loss_coeff": 0.1,
    "clip_param": 0.01,
    "grad_clip": 0.01,
    "num_epochs": 3,
    "minibatch_size": 24,
    "microbatch_size": 5,
    "vtrace": False,
    "use_kl_loss": True,
    "kl_coeff": 5.0,
    "tau": 0.5,
    "target_network_update_freq": 1,
    "target_worker_clipping": 0.1,
    "loss_reduction": "sum",
    "target_entropy": 0.3,
    "initial_alpha": 0.1,
    "critic_lr": 1e-2,
    "n_step": 2,
    "double_q": False,
    "model": {"fcnet_hiddens": [8]},
    "beta": 0.5,
    "expectile": 0.9,
    "min_q_weight": 1.0,
}


def why_not(name: str) -> str | None:
    why: str | None = get_algorithm(name).config_class.several_agents
    return why


ABLE = [name for name in algorithm_names() if why_not(name) is None]
able = pytest.mark.parametrize("name", ABLE)
few_at_first = pytest.mark.parametrize("name", rarely(ABLE, ["BC", "DQN", "PPO"]))


def build(name: str, **more: Any) -> Algorithm:
    given = {"model": {"fcnet_hiddens": [16]}, **GAME, **TWO, **more}
    return get_algorithm(name)(config=short_settings_of(name, **given))


def weights(algo: Algorithm, module_id: str) -> np.ndarray:
    return np.concatenate([own.ravel() for own in algo.get_weights()[module_id].values()])


def first_update(algo: Algorithm) -> None:
    """Train until a has learned."""
    before = weights(algo, "a")
    while (weights(algo, "a") == before).all():
        algo.training_step()


def test_all_but_two_are_able_and_these_say_why() -> None:
    others = {*algorithm_names()} - {*ABLE}
    assert others == {"DreamerV3", "QMIX"}
    for name in others:
        config = get_algorithm(name).config_class(**GAME)
        config.multi_agent(policies=["a"])
        says = f"^{name} is not supported with several agents: .*; all"
        with pytest.raises(ConfigError, match=says):
            config.validate()


@able
def test_one_agent_learns_as_several_what_it_learns_alone(name: str) -> None:
    found = []
    for module_id, more in (("default_policy", {}), ("only", {"policies": ["only"]})):
        with get_algorithm(name)(config=short_settings_of(name, WALK, **more)) as algo:
            results = [algo.train() for _ in range(2)]
            found.append(
                ([told(result, module_id) for result in results], weights(algo, module_id))
            )
    (alone, own), (several, same) = found
    np.testing.assert_array_equal(own, same)
    for one, other in zip(alone, several, strict=True):
        assert one == pytest.approx(other, rel=1e-6)  # returns are sums in float64 there
    assert learned(alone) == learned(several)


def learned(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{n: v for n, v in told.items() if n.startswith("learner/")} for told in results]


def told(result: dict[str, Any], module_id: str) -> dict[str, Any]:
    """What a result tells of learning and episodes."""
    told = {n.replace(f"/{module_id}/", "/"): v for n, v in result.items()}
    starts = ("learner/", "episode_", "num_env_steps", "exploration/", "replay/")
    return {n: v for n, v in told.items() if n.startswith(starts)}


@able
def test_settings_of_a_policy_change_what_that_policy_learns(name: str) -> None:
    allowed = module_settings(get_algorithm(name).config_class)
    own = {n: value for n, value in OWN.items() if n in allowed}
    assert len(own) > 4
    found = []
    # What an agent sees depends on no other one here, and noise on weights is drawn from a stream
    # that all policies share.
    shared = SCRIPTED | ({"noisy": False} if "noisy" in allowed else {})
    for overrides in ({}, {"b": own}):
        given = {**shared, "algorithm_config_overrides_per_module": overrides}
        with build(name, **given) as algo:
            first_update(algo)
            found.append([weights(algo, m) for m in "ab"])
    (a, b), (same, other) = found
    np.testing.assert_array_equal(a, same)
    assert b.shape != other.shape


@few_at_first
def test_a_learning_rate_is_of_its_policy(name: str) -> None:
    with build(name, algorithm_config_overrides_per_module={"b": {"lr": 0.0}}) as algo:
        before = {m: weights(algo, m) for m in "ab"}
        result = [algo.train() for _ in range(2)][-1]
        assert (weights(algo, "a") != before["a"]).any()
        np.testing.assert_array_equal(weights(algo, "b"), before["b"])
    rates = [v for n, v in result.items() if n.startswith("learner/b/curr") and n.endswith("lr")]
    assert rates and set(rates) == {0.0}


@able
def test_a_resumed_run_is_equal_to_the_bit(name: str, tmp_path: Path) -> None:
    own = {"lr": 1e-3, "gamma": 0.9}
    with build(name, policies={"a": None, "b": {"config": own}}) as algo:
        algo.train()
        algo.save(str(tmp_path))
        expected = without_clocks(algo.train())
        after = both(algo)
    trust = trusted(name, **GAME)
    with get_algorithm(name).from_checkpoint(str(tmp_path), trust=trust) as again:
        assert again.config_of("b").lr == 1e-3
        found = without_clocks(again.train())
        np.testing.assert_array_equal(after, both(again))
    assert {**expected, "config": None} == {**found, "config": None}


def both(algo: Algorithm) -> np.ndarray:
    return np.concatenate([weights(algo, m) for m in "ab"])


@few_at_first
def test_policies_that_are_not_trained_stay_where_they_are(name: str) -> None:
    specs = {"a": None, "b": None, "chance": {"policy_class": "random"}}
    mapping = {"agent_0": "a", "agent_1": "b", "*": "chance"}
    more: dict[str, Any] = {"policies": specs, "policy_mapping_fn": mapping}
    played = ""
    if not samples(name):
        more |= {"evaluation_interval": 1, "evaluation_duration": 2}
        played = "evaluation/"
    with build(name, policies_to_train=["a"], **more) as algo:
        before = {m: weights(algo, m) for m in "ab"}
        result = [algo.train() for _ in range(2)][-1]
        assert (weights(algo, "a") != before["a"]).any()
        np.testing.assert_array_equal(weights(algo, "b"), before["b"])
    assert {n.split("/")[1] for n in result if n.startswith("learner/")} == {"a"}
    assert result[f"{played}module/chance/episode_return_mean"] > 0


@few_at_first
def test_no_policy_at_all_may_be_trained(name: str) -> None:
    with build(name, policies_to_train=[]) as algo:
        before = both(algo)
        for _ in range(2):
            algo.train()
        np.testing.assert_array_equal(both(algo), before)


@few_at_first
def test_a_function_chooses_whom_to_train(name: str) -> None:
    chosen = {"a", "b"}
    with build(name, policies_to_train=lambda m, batch=None: batch is None or m in chosen) as algo:
        learned = {n for n in algo.train() if n.startswith("learner/")}
        assert {n.split("/")[1] for n in learned} == {"a", "b"}
        chosen.remove("b")
        before = {m: weights(algo, m) for m in "ab"}
        assert learned <= algo.train().keys()
        assert (weights(algo, "a") != before["a"]).any()
        np.testing.assert_array_equal(weights(algo, "b"), before["b"])


@few_at_first
def test_policies_on_disk_learn_what_they_learn_in_memory(name: str) -> None:
    found = []
    for capacity in (None, 1):
        with build(name, policy_map_capacity=capacity) as algo:
            algo.train()
            found.append(both(algo))
    np.testing.assert_array_equal(*found)


@few_at_first
def test_policies_come_and_go(name: str, tmp_path: Path) -> None:
    with build(name) as algo:
        algo.train()
        mapping = {"agent_0": "c", "*": "b"}
        added = algo.add_policy("c", config={"lr": 2e-4}, policy_mapping_fn=mapping)
        before = added.get_weights()
        algo.remove_policy("a")
        result = [algo.train() for _ in range(2)][-1]
        learned = {n.split("/")[1] for n in result if n.startswith("learner/")}
        assert learned == {"b", "c"}
        now = algo.get_weights()["c"]
        assert any((now[n] != value).any() for n, value in before.items())
        algo.save(str(tmp_path))
        stays = weights(algo, "c")
    trust = trusted(name, **GAME)
    with get_algorithm(name).from_checkpoint(str(tmp_path), trust=trust) as again:
        np.testing.assert_array_equal(weights(again, "c"), stays)
        assert {n.split("/")[1] for n in again.train() if n.startswith("learner/")} == learned


@pytest.mark.parametrize(
    ("name", "pattern"), covering(ABLE, [p for p in PATTERNS if p != "two kinds"], strength=1)
)
def test_agents_act_as_the_environment_likes(name: str, pattern: str) -> None:
    more: dict[str, Any] = {"env": PATTERNS[pattern], "clip_rewards": True}
    more["env_config"] = {"num_agents": 3, "length": 4}
    if samples(name):
        more["observation_filter"] = "MeanStdFilter"
    else:  # which recorded data have of every pattern
        more["policy_mapping_fn"] = {"agent_1": "a", "*": "b"}
    with build(name, **more) as algo:
        result = algo.train()
    assert result["num_env_steps_trained_lifetime"] > 0
    learned = {n: v for n, v in result.items() if n.startswith("learner/")}
    assert np.isfinite([*learned.values()]).all()


@pytest.mark.parametrize(
    "name", rarely([name for name in ABLE if not compares_actions(name)], ["BC", "PPO", "SAC"])
)
def test_agents_of_two_kinds_have_policies_of_two_kinds(name: str) -> None:
    more: dict[str, Any] = {"env": PATTERNS["two kinds"], "clip_rewards": True}
    more |= {"env_config": {"num_agents": 2, "length": 4}}
    with build(name, **more) as algo:
        result = algo.train()
    assert {n.split("/")[1] for n in result if n.startswith("learner/")} == {"a", "b"}


@pytest.mark.parametrize("name", rarely([*filter(samples, ABLE)], ["DQN", "PPO"]))
def test_steps_of_agents_may_be_counted(name: str) -> None:
    found = []
    for unit in ("env_steps", "agent_steps"):
        with build(name, count_steps_by=unit) as algo:
            algo.training_step()
            found.append(algo.num_agent_steps_sampled)
            assert algo.num_env_steps_sampled > 0
    assert found[0] > found[1] > 0


FROM_DATA = [n for n in ABLE if get_algorithm(n).config_class.learns_from_data]
from_data = pytest.mark.parametrize("name", rarely(FROM_DATA, ["BC", "IQL"]))


RECORDED: dict[str, Any] = {
    **GAME,
    **TWO,
    "seed": 3,
    "train_batch_size_per_learner": 64,
    "dataset_num_iters_per_learner": 5,
    "model": {"fcnet_hiddens": [16]},
}


def build_from_data(name: str, **more: Any) -> Algorithm:
    """Build an algorithm that learns from recorded rows alone."""
    return get_algorithm(name)(config={**RECORDED, "input_": rows_of_game(), **more})


def rows_of_game() -> str:
    return recorded(GAME["env"], GAME["env_config"])


def test_all_that_learn_from_data_are_met() -> None:
    assert {"BC", "CQL", "DQN", "IQL", "MARWIL", "SAC"} == {*FROM_DATA}


@from_data
def test_a_policy_learns_from_the_rows_of_its_agents(name: str) -> None:
    folder = rows_of_game()
    [policy] = os.listdir(folder)
    tables = [pq.read_table(file) for file in Path(folder, policy).iterdir()]
    frame = pa.concat_tables(tables).to_pandas()
    with build_from_data(name) as algo:
        result = algo.train()
        for module_id, agents in (("a", ["agent_0"]), ("b", ["agent_1", "agent_2"])):
            own = frame[frame["agent_id"].isin(agents)]
            columns = algo.experience[module_id].data.columns
            is_row = columns["valid"]
            assert is_row.sum() == len(own) > 100
            np.testing.assert_array_equal(columns["obs"][is_row], np.stack(own["obs"]))
            np.testing.assert_array_equal(columns["actions"][is_row], own["action"])
    assert {n.split("/")[1] for n in result if n.startswith("learner/")} == {"a", "b"}


@from_data
def test_a_run_from_data_is_resumed_to_the_bit(name: str, tmp_path: Path) -> None:
    with build_from_data(name, evaluation_interval=1, evaluation_duration=2) as algo:
        algo.train()
        algo.save(str(tmp_path))
        expected, after = without_clocks(algo.train()), both(algo)
    assert {n for n in expected if n.startswith("evaluation/module/b/")}
    trust = [rows_of_game()]
    with get_algorithm(name).from_checkpoint(str(tmp_path), trust=trust) as again:
        found = without_clocks(again.train())
        np.testing.assert_array_equal(after, both(again))
    assert {**expected, "config": None} == {**found, "config": None}


@from_data
def test_the_data_alone_say_what_agents_see(name: str) -> None:
    config = {n: value for n, value in RECORDED.items() if n not in GAME}
    with get_algorithm(name)(config={**config, "input_": rows_of_game()}) as algo:
        result = algo.train()
        assert algo.policies["b"].observation_space.shape == (4,)
    assert result["num_env_steps_trained_lifetime"] > 0


@pytest.mark.parametrize("name", rarely([*filter(samples, FROM_DATA)], ["DQN"]))
def test_recorded_and_sampled_rows_are_mixed_for_each_policy(name: str) -> None:
    mixed = {"input_": {rows_of_game(): 0.5, "sampler": 0.5}}
    buffer = {"replay_buffer_config": {"type": "ReplayBuffer", "capacity": 2000}}
    with build(name, **mixed, **buffer) as algo:
        algo.train()
        for module_id in "ab":
            data, sampled = algo.experience[module_id].parts.values()
            assert data.num_steps > 0 and sampled.num_added > 0
            batch = algo.experience[module_id].sample(8, gamma=0.9)
            assert int((batch["ids"] >= 1 << 48).sum()) == 4
