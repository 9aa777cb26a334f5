"""Checkpoints of an algorithm class of one's own: restored as that class, or one error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from forged import forge
from own_algorithms import SMALL, MyAlgorithm, MyConfig, MyPPO

from experiments.commands.evaluation.evaluate import evaluate_folder
from trainables import DQN, PPO, Algorithm, AlgorithmConfig, PPOConfig, registry
from trainables.core.checkpoint import CheckpointError
from trainables.registry import register_algorithm

NAME = "own_algorithms:MyPPO"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of `MyPPO`, with an environment and callbacks that are code, too."""
    folder = tmp_path_factory.mktemp("own") / "c"
    own = {"env": "fakes:limited_walk", "callbacks_class": "callback_cases:Counts"}
    with MyPPO(config={**SMALL, **own}) as algo:
        algo.train()
        algo.save(str(folder))
    return folder


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Of `MyPPO`, with nothing else that needs trust."""
    with MyPPO(config=SMALL) as algo:
        algo.train()
        algo.save(str(tmp_path / "c"))
    return tmp_path / "c"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MODULES", dict(registry._MODULES))
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    register_algorithm(MyPPO)


def goes_on(algo: Any, kind: type = MyPPO) -> None:
    assert type(algo) is kind
    with algo as running:
        result = running.train()
        assert (result["mine"], result["training_iteration"]) == (1, 2)


def test_it_is_restored_as_the_class_that_is_asked_for(plain: Path) -> None:
    goes_on(MyPPO.from_checkpoint(plain))


@pytest.mark.parametrize("asked", [Algorithm, PPO])
def test_it_is_restored_as_the_class_that_is_trusted(plain: Path, asked: Any) -> None:
    goes_on(asked.from_checkpoint(plain, trust=[NAME]))
    goes_on(asked.from_checkpoint(plain, trust=NAME))


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("asked", [Algorithm, PPO])
def test_it_is_restored_as_the_class_that_is_registered(plain: Path, asked: Any) -> None:
    goes_on(asked.from_checkpoint(plain))


@pytest.mark.usefixtures("registered")
def test_a_registered_class_needs_trust_where_it_is_not_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MyPPO(config=SMALL) as algo:
        algo.train()
        algo.save(str(tmp_path))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=rf"algorithm_class = '{NAME}' \(code"):
        Algorithm.from_checkpoint(tmp_path)
    goes_on(Algorithm.from_checkpoint(tmp_path, trust=[NAME]))


@pytest.mark.parametrize("asked", [Algorithm, PPO])
def test_one_error_names_all_that_needs_trust(saved: Path, asked: Any) -> None:
    with pytest.raises(CheckpointError) as raised:
        asked.from_checkpoint(saved)
    told = str(raised.value)
    wanted = [NAME, "callback_cases:Counts", "fakes:limited_walk"]
    for entry in wanted:
        assert f"'{entry}' (code that would be imported)" in told
    trust = json.loads(told.partition("trust=")[2].partition("]")[0].replace("'", '"') + "]")
    assert sorted(trust) == sorted(wanted)
    goes_on(asked.from_checkpoint(saved, trust=trust))
    for missing in wanted:
        with pytest.raises(CheckpointError, match=missing):
            asked.from_checkpoint(saved, trust=[entry for entry in trust if entry != missing])


def test_nothing_is_imported_without_trust(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "own_algorithms")  # as in a process that never met it
    with pytest.raises(ValueError, match=NAME):
        Algorithm.from_checkpoint(plain)
    assert "own_algorithms" not in sys.modules


def test_a_class_of_another_algorithm_is_refused(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=rf"is of {NAME}, not of DQN$"):
        DQN.from_checkpoint(plain, trust=[NAME])
    with PPO(config=SMALL) as algo:
        algo.save(str(tmp_path / "ppo"))
    with pytest.raises(CheckpointError, match=r"is of PPO, not of MyPPO: MyPPO\(.*\)\.restore\("):
        MyPPO.from_checkpoint(tmp_path / "ppo")
    with MyPPO(config=SMALL) as algo:
        algo.restore(tmp_path / "ppo")


def test_trusting_what_is_no_algorithm_is_an_error(plain: Path) -> None:
    other = "own_algorithms:SMALL"
    forge(plain, lambda state: state.update(algorithm_class={"__callable__": other}))
    with pytest.raises(CheckpointError, match=rf"is of {other}, not of Algorithm"):
        Algorithm.from_checkpoint(plain, trust=[other])


def test_an_older_name_of_a_setting_is_judged_with_a_trusted_class(plain: Path) -> None:
    forge(plain, lambda state: state["config"].pop("num_env_runners"))
    forge(plain, lambda state: state["config"].update(num_workers=5000))
    with pytest.raises(CheckpointError, match=r"num_env_runners = 5000 \(processes"):
        Algorithm.from_checkpoint(plain, trust=[NAME])


def test_older_checkpoints_name_no_class_and_are_of_the_nearest(plain: Path) -> None:
    forge(plain, lambda state: state.pop("algorithm_class"))
    with Algorithm.from_checkpoint(plain) as algo:
        assert type(algo) is PPO


def test_a_state_in_memory_holds_the_class_itself() -> None:
    with MyPPO(config=SMALL) as algo:
        algo.train()
        state = algo.get_state()
    goes_on(Algorithm.from_state(state))


def test_our_own_algorithms_are_named_by_their_names_alone() -> None:
    with PPO(config=SMALL) as algo:
        assert not {"algorithm_class", "config_class"} & set(algo.get_state())


def test_a_local_class_is_restored_by_the_class_alone(tmp_path: Path) -> None:
    class Local(MyPPO):
        pass

    with Local(config=SMALL) as algo:
        algo.train()
        algo.save(str(tmp_path))
    goes_on(Local.from_checkpoint(tmp_path), Local)
    with pytest.raises(
        CheckpointError, match=r"Local, which no import finds: call from_checkpoint"
    ):
        Algorithm.from_checkpoint(tmp_path)


def test_a_class_of_another_script_is_restored_by_the_class_alone(plain: Path) -> None:
    forge(plain, lambda state: state.update(algorithm_class={"__callable__": "__main__:MyPPO"}))
    with pytest.raises(CheckpointError, match=r"__main__:MyPPO, which no import finds: call from_"):
        Algorithm.from_checkpoint(plain)
    goes_on(MyPPO.from_checkpoint(plain))


def test_a_class_that_is_based_on_none_of_ours(tmp_path: Path) -> None:
    class Bare(Algorithm):
        config_class = PPOConfig

        def training_step(self) -> dict[str, float]:
            self.sample()
            return {"mine": 1.0}

    with Bare(config=SMALL) as algo:
        algo.train()
        algo.save(str(tmp_path))
    goes_on(Bare.from_checkpoint(tmp_path), Bare)


# ------------------------------------------------------------------ config classes of one's own


def test_its_config_class_comes_back_with_it(tmp_path: Path) -> None:
    with MyAlgorithm(config={**SMALL, "bonus": 1.5, "my_coeff": 0.7}) as algo:
        algo.train()
        algo.save(str(tmp_path))
    for asked, trust in ((MyAlgorithm, ()), (Algorithm, ["own_algorithms:MyAlgorithm"])):
        with asked.from_checkpoint(tmp_path, trust=trust) as again:
            assert type(again) is MyAlgorithm
            assert type(again.config) is MyConfig
            assert (again.config.bonus, again.config.my_coeff) == (1.5, 0.7)


def test_a_config_class_that_is_not_the_algorithms_is_named_too(tmp_path: Path) -> None:
    with MyConfig(MyPPO, bonus=1.5).update_from_dict(SMALL).build() as algo:
        algo.train()
        algo.save(str(tmp_path))
    wanted = [NAME, "own_algorithms:MyConfig"]
    with pytest.raises(CheckpointError) as raised:
        Algorithm.from_checkpoint(tmp_path)
    assert f"trust={wanted}" in str(raised.value)
    with Algorithm.from_checkpoint(tmp_path, trust=wanted) as again:
        assert (type(again), type(again.config)) == (MyPPO, MyConfig)
        assert again.config.bonus == 1.5


def test_a_trusted_class_does_not_open_other_settings(tmp_path: Path) -> None:
    with MyAlgorithm(config={**SMALL, "record_env": str(tmp_path / "v")}) as algo:
        algo.save(str(tmp_path / "c"))
    with pytest.raises(CheckpointError, match="record_env"):
        Algorithm.from_checkpoint(tmp_path / "c", trust=["own_algorithms:MyAlgorithm"])


def test_the_base_configs_checkpoints_round_trip(tmp_path: Path) -> None:
    with AlgorithmConfig(MyPPO).update_from_dict(SMALL).build() as algo:
        algo.train()
        algo.save(str(tmp_path))
    goes_on(MyPPO.from_checkpoint(tmp_path))


# ------------------------------------------------------------------ evaluated and exported


def test_its_policy_is_evaluated(saved: Path) -> None:
    trust = ["fakes:limited_walk"]
    for named in (None, "PPO", "MyPPO", NAME):
        evaluation = evaluate_folder(saved, episodes=1, algo=named, trust=[*trust, NAME])
        assert len(evaluation.episodes) == 1
