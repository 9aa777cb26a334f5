"""What stands in the guides runs as it stands, or with smaller budgets."""

from __future__ import annotations

import re
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from page_blocks import block_with, blocks, text_of, write_files
from page_commands import free_ports, play, run_commands, servers
from ray import tune
from recorded_data import recorded

from experiments import build_tuner, load_spec
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import load_specs, make_spec
from trainables import DQNConfig, Policy, PPOConfig

GUIDES = "trainables/guides"
SPECS = "experiments/guides"
SPACES = "search_spaces/README.md"
SMALL = {"train_batch_size_per_learner": 128, "minibatch_size": 64, "num_epochs": 1}


class Maze(gym.Env):
    """A walk whose level is its length."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.level, self.position = 0, 0

    def set_task(self, level: int) -> None:
        self.level = level

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.position = 0
        return np.array([0], np.float32), {}

    def step(self, action: Any) -> Any:
        self.position += 1
        return np.array([self.position], np.float32), 25.0, self.position == 10, False, {}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def smaller(code: str, budgets: dict[str, str]) -> str:
    """An example with other budgets, each of which it must have."""
    for old, new in budgets.items():
        assert old in code, old
        code = code.replace(old, new)
    return code


def stored_in(folder: Path) -> dict[str, str]:
    """What an example writes into a folder, rather than into the home folder."""
    return {"tune.RunConfig(": f"tune.RunConfig(storage_path={str(folder)!r}, "}


# ------------------------------------------------------------------ trainables


def test_all_of_rainbow() -> None:
    [text] = blocks(f"{GUIDES}/algorithms.md", "yaml")
    settings = yaml.safe_load(text)
    assert settings["double_q"] and settings["num_atoms"] == 51
    config = DQNConfig.from_dict(settings).environment("CartPole-v1")
    config.training(num_steps_sampled_before_learning_starts=100)
    with config.reporting(min_sample_timesteps_per_iteration=200).build() as algo:
        assert np.isfinite(algo.train()["learner/default_policy/qf_loss"])


def test_a_curriculum() -> None:
    names: dict[str, Any] = {"PPOConfig": PPOConfig, "Maze": Maze}
    code = block_with(f"{GUIDES}/environments.md", "env_task_fn=next_level")
    exec(code.replace("\nPPOConfig()", "\nconfig = PPOConfig()"), names)
    config = names["config"].training(train_batch_size_per_learner=256)
    with config.debugging(seed=0).build() as algo:
        assert algo.train()["episode_return_mean"] == 250
        levels = [env.unwrapped.level for env in algo.env_runners.foreach_env(lambda env: env)[0]]
        assert levels == [2] * len(levels) and levels


def test_an_evaluation_of_ones_own() -> None:
    names: dict[str, Any] = {"PPOConfig": PPOConfig}
    code = block_with(f"{GUIDES}/evaluation.md", "custom_evaluation_function=worst_tenth")
    exec(code.replace("\nPPOConfig()", "\nconfig = PPOConfig()"), names)
    config = names["config"].environment("CartPole-v1").debugging(seed=0)
    with config.training(train_batch_size_per_learner=256).build() as algo:
        assert 8 <= algo.evaluate()["worst_tenth"] <= 500


def test_callbacks(folder: Path) -> None:
    page = f"{GUIDES}/callbacks.md"
    [module] = write_files(page, folder)
    names: dict[str, Any] = {}
    exec(blocks(page, "python")[1], names)
    config = names["config"].training(num_epochs=1).debugging(seed=0)
    with config.build() as algorithm:
        result = algorithm.train()
    least, mean = (result[f"custom_metrics/pole_angle_{what}"] for what in ("min", "mean"))
    assert 0.2 < least < mean < 0.5  # an episode ends at 12 degrees
    assert result["custom_metrics/long_episodes_sum"] == 0
    assert result["steps_per_episode"] > 5
    del sys.modules[module]


def test_curiosity() -> None:
    names: dict[str, Any] = {"PPOConfig": PPOConfig}
    exec(block_with(f"{GUIDES}/exploration.md", '"Curiosity"'), names)
    with names["config"].training(**SMALL).build() as algo:
        assert np.isfinite(algo.train()["learner/default_policy/curiosity/inverse_loss"])


def test_several_agents(folder: Path) -> None:
    """The page's examples, one after another: later ones use the imports of earlier ones."""
    page = f"{GUIDES}/multi_agent.md"
    [tag] = write_files(page, folder)
    with PPOConfig(**SMALL).environment(f"{tag}:Tag").build() as algo:
        assert algo.train()["num_env_steps_sampled"] >= SMALL["train_batch_size_per_learner"]
    del sys.modules[tag]
    build = f".training(**{SMALL}).build()"
    names: dict[str, Any] = {}
    for code in blocks(page, "python"):
        exec(code if "QMIXConfig" in code else code.replace(".build()", build), names)
        if ".build()" not in code and "config = " in code:
            small = {} if isinstance(names["config"], DQNConfig) else SMALL
            with names["config"].training(**small).build() as algo:
                assert algo.train()["num_env_steps_sampled"] > 0, code
    assert len(names["matches"].games) == 1000


def test_settings_that_continue_from_a_policy() -> None:
    """And of a small DreamerV3: such settings go together; nothing is built."""
    for code in blocks(f"{GUIDES}/algorithms.md", "python"):
        names: dict[str, Any] = {}
        exec(code, names)
        names["config"].validate()


def test_recorded_data(folder: Path) -> None:
    page = f"{GUIDES}/offline.md"
    data = recorded("CartPole-v1")
    output, train, reader, tuned, mixed, columns, frame = blocks(page, "python")
    names: dict[str, Any] = {}
    budgets = {"data/mixed": data, "learner=50": "learner=2", "evaluation_duration=10": ""}
    exec(smaller(train, budgets), names)
    assert np.isfinite(names["result"]["evaluation/episode_return_mean"])
    names["algo"].stop()
    exec(reader, names)
    own = names["config"].copy(copy_frozen=False).offline_data(input_="balanced")
    with own.build() as algo:
        assert np.isfinite(algo.train()["learner/default_policy/policy_loss"])
    for code in (output, tuned, smaller(mixed, {"data/mixed": data})):
        exec(code, names)
        names["config"].validate()
    exec(frame, names)
    assert names["logs"]["truncated"].tolist() == [False, True, True]
    exec(columns, names)
    logs = names["logs"].assign(
        price=1.0, stock=[3.0, 2.0, 1.0], is_weekend=False, profit=[1.0, 2.0, 0.0]
    )
    Path("logs").mkdir()
    logs.drop(columns="discount").to_csv("logs/one.csv", index=False)
    with names["config"].offline_data(dataset_num_iters_per_learner=1).build() as algo:
        assert algo.get_policy().observation_space.shape == (3,)
        algo.train()


@pytest.mark.full("integration/test_readme.py::test_the_examples_tell_one_story")
def test_a_policy_of_a_result(ray_here: None, folder: Path) -> None:
    names: dict[str, Any] = {}
    code = block_with(f"{GUIDES}/checkpoints.md", "get_best_result")
    exec(smaller(code, {"10_000": "2_000", **stored_in(folder)}), names)
    assert isinstance(names["policy"], Policy)


# ------------------------------------------------------------------ experiments


@pytest.mark.full("integration/test_readme.py::test_the_examples_tell_one_story")
def test_the_orientation_of_experiments(ray_here: None, folder: Path) -> None:
    page = "experiments/README.md"
    [spec] = blocks(page, "yaml")
    Path("cartpole.yaml").write_text(spec, encoding="utf-8")
    assert load_spec("cartpole.yaml").search.algorithm == "tpe"
    [code] = blocks(page, "python")
    names: dict[str, Any] = {}
    few = '["num_samples=1", "stop.num_env_steps_sampled_lifetime=2000", "scheduler=fifo"]'
    exec(smaller(code, {'["num_samples=4"]': few}), names)
    assert len(names["results"]) == 1


def test_the_form_of_a_spec_has_every_key_and_its_default() -> None:
    [text] = blocks(f"{SPECS}/specs.md", "yaml")
    form = yaml.safe_load(text)
    assert {*form, "objectives"} == set(SweepSpec.model_fields)  # of several, by `objective`
    minimal = {key: form[key] for key in ("name", "trainable", "config", "stop")}
    assert make_spec(form) == make_spec(minimal)


def test_a_spec_of_several_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, matrix = blocks(f"{SPECS}/composing.md", "yaml")
    Path("nets").mkdir()
    Path("nets/small.yaml").write_text("model: {fcnet_hiddens: [16]}", encoding="utf-8")
    Path("mine.yaml").write_text(first, encoding="utf-8")
    monkeypatch.setenv("TEAM", "one")
    monkeypatch.setenv("MLFLOW_URI", "sqlite:///mine.db")
    spec = load_spec("mine.yaml")
    assert spec.config["model"] == {"fcnet_hiddens": [16]} and "lr" not in spec.config
    assert spec.seed == 0 and spec.mlflow.tags == {"team": "group one"}
    Path("study.yaml").write_text(matrix, encoding="utf-8")
    stop = "stop.num_env_steps_sampled_lifetime=1000"
    assert len(load_specs("study.yaml", [stop])) == 6  # 2 x 2 x 2 less the two of what is excluded


def test_a_spec_that_records_its_data(folder: Path) -> None:
    [text] = blocks(f"{GUIDES}/offline.md", "yaml")
    Path("imitate.yaml").write_text(text, encoding="utf-8")
    assert load_spec("imitate.yaml").record.episodes == 80  # type: ignore[union-attr]


def test_parts_of_a_spec(folder: Path) -> None:
    head = "config: {env: CartPole-v1}\nstop: {training_iteration: 1}\ntrainable: "
    inline, conditional, *named = blocks(SPACES, "yaml")
    batched = blocks(f"{SPECS}/trial_batching.md", "yaml")
    parts = {part: "PPO" for part in (inline, *named, *batched)} | {conditional: "DQN"}
    for part, trainable in parts.items():
        Path("mine.yaml").write_text(f"{head}{trainable}\n{part}", encoding="utf-8")
        spec = load_spec("mine.yaml")
        assert spec.search_space or spec.trial_batching, part


def test_search_spaces_with_plain_tune() -> None:
    space, search = blocks(SPACES, "python")
    names: dict[str, Any] = {}
    exec(space, names)
    assert isinstance(names["tuner"], tune.Tuner) and names["space"].to_tune()
    exec(search, names)  # it goes on from the first
    assert set(names["search"].suggest("one")) == set(names["load_space"]("ppo/zoo").to_tune())


@pytest.mark.full("test_search_spaces_with_plain_tune")
def test_trial_batching_with_plain_tune(ray_here: None, folder: Path) -> None:
    names: dict[str, Any] = {}
    few = {"num_samples=32": "num_samples=2", "50_000": "1_000"}
    code = block_with(f"{SPECS}/trial_batching.md", "batched(tuner)")
    exec(smaller(code, few | stored_in(folder)), names)
    assert len(names["results"]) == 2 and not names["results"].errors


def test_the_setting_that_contributors_see_is_the_products() -> None:
    code = block_with("CONTRIBUTING.md", "clip_param")
    assert textwrap.indent(code, "    ") in text_of("trainables/settings/ppo.py")


def test_seeds_with_plain_tune() -> None:
    names: dict[str, Any] = {}
    exec(block_with(f"{SPECS}/seeds.md", "with_seeds"), names)
    assert isinstance(names["tuner"], tune.Tuner)


@pytest.mark.full("integration/test_readme.py::test_the_examples_tell_one_story")
def test_mlflow_with_plain_tune(ray_here: None, folder: Path) -> None:
    names: dict[str, Any] = {}
    code = block_with(f"{SPECS}/mlflow.md", "MLflowCallback")
    few = {"20_000": "1_000", "num_samples=4": "num_samples=1"}
    exec(smaller(code, few | stored_in(folder)), names)
    assert not names["tuner"].fit().errors
    assert (folder / "mlflow.db").is_file()


def test_callbacks_of_a_spec(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    text = blocks(f"{SPECS}/mlflow.md", "yaml")[0]
    (folder / "my_callbacks.py").write_text(
        "from ray import tune\n\nclass Mine(tune.Callback):\n    pass\n\n"
        "class Chat(tune.Callback):\n    def __init__(self, room, token):\n        pass\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("CHAT_TOKEN", "secret")
    Path("spec.yaml").write_text(f"extends: quickstart\nname: mine\n{text}", encoding="utf-8")
    assert len(build_tuner(load_spec("spec.yaml"))._local_tuner.get_run_config().callbacks) > 3
    sys.modules.pop("my_callbacks", None)


@pytest.mark.parametrize("page", ["networks", "own_updates", "your_own"])
def test_modules_of_the_guides_can_be_imported(page: str, folder: Path) -> None:
    modules = write_files(f"{GUIDES}/{page}.md", folder)
    assert modules
    for name in modules:
        __import__(name)
        del sys.modules[name]


# ------------------------------------------------------------------ commands after a sweep

RUNS = """\
mkdir experiments
cat > experiments/quickstart.yaml <<'EOF'
extends: quickstart
name: quickstart
scheduler: fifo
stop: {num_env_steps_sampled_lifetime: 4096}
num_samples: 2
mlflow: {register_as: cartpole}
EOF
cat > dqn.yaml <<'EOF'
trainable: DQN
config: {env: CartPole-v1, num_steps_sampled_before_learning_starts: 100}
search_space: {double_q: {grid: [false, true]}, dueling: {grid: [false, true]}}
search: grid
stop: {num_env_steps_sampled_lifetime: 2000}
EOF
cat > duo.yaml <<'EOF'
trainable: PPO
config:
  env: multi_agent_cartpole
  policies: [expert, novice]
  policy_mapping_fn: {agent_0: expert, "*": novice}
stop: {training_iteration: 1}
EOF
cat > cartpole_ppo.py <<'EOF'
from trainables import PPOConfig

config = PPOConfig().environment("CartPole-v1")
stop = {"training_iteration": 1}
EOF
tunescape run experiments/quickstart.yaml
cp -r runs/quickstart runs/cartpole
cp -r runs/quickstart runs/ppo
tunescape run experiments/quickstart.yaml --name study
tunescape run dqn.yaml
cp -r runs/dqn runs/rainbow-parts
tunescape run duo.yaml
tunescape run tictactoe --set num_samples=1 --set stop.num_env_steps_sampled_lifetime=4096
tunescape record random --env CartPole-v1 -o data/held-out --episodes 20
"""
RECORDED = (
    " --set record.train.stop.num_env_steps_sampled_lifetime=2048 --set record.episodes=8"
    " --set num_samples=1 --set stop.training_iteration=1 --set config.evaluation_interval=1"
    " --set config.dataset_num_iters_per_learner=2 --set config.evaluation_duration=2"
)
ESTIMATED = "".join(
    f" --set config.off_policy_estimation_methods.{name}.num_updates=5"
    for name in ("fqe", "fqe_short", "fqe_linear")
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user who has run the sweeps that the pages' commands name."""
    folder = tmp_path_factory.mktemp("user")
    [of_rllib] = blocks(f"{GUIDES}/from_rllib.md", "yaml")
    (folder / "cartpole-ppo.yaml").write_text(of_rllib, encoding="utf-8")
    run_commands(RUNS, folder)
    return folder


@pytest.mark.timeout(1200)
@pytest.mark.full("unit/test_page_commands.py::test_commands_are_read")
@pytest.mark.parametrize(
    ("commands", "budgets"),
    [
        pytest.param(blocks("README.md", "bash"), {"100": "4"}, id="README"),
        pytest.param(
            [*blocks("docs/python.md", "bash"), *blocks(f"{GUIDES}/offline.md", "bash")],
            {
                "--episodes 200": "--episodes 10",
                "--episodes 100": "--episodes 4",
                "run offline_cartpole": f"run offline_cartpole{RECORDED}",
                "run offline_pendulum": f"run offline_pendulum{RECORDED}{ESTIMATED}",
                "-o data/random --episodes 10\n": "-o data/uniform --episodes 10\n",
                "-o data/crowd": "-o data/crowd --episodes 4",
                "-o data/duo": "-o data/duo --episodes 4",
            },
            id="offline",
        ),
        pytest.param(
            blocks("experiments/README.md", "bash"),
            {
                "--set num_samples=4": "--name again --set num_samples=1",
                "quickstart --dry-run": "quickstart --dry-run --name new",
                "100000}": "1000}",
                "--episodes 100": "--episodes 4",
            },
            id="experiments",
        ),
        pytest.param(
            blocks(f"{SPECS}/evaluating.md", "bash"),
            {
                "--episodes 1000": "--episodes 10",
                "--episodes 100 ": "--episodes 4 ",
                "runs/offline_cartpole/MARWIL": "runs/quickstart",
            },
            id="evaluating",
        ),
        pytest.param(
            blocks(f"{SPECS}/resuming.md", "bash"),
            {"--num-samples 40": "--num-samples 3", "200000": "6144"},
            id="resuming",
        ),
        pytest.param(blocks(f"{SPECS}/watching.md", "bash"), {}, id="watching"),
    ],
)
def test_commands_after_a_sweep(runs: Path, commands: list[str], budgets: dict[str, str]) -> None:
    with servers(runs) as start:

        def serve(command: str) -> str:
            command = re.sub(r"#.*|--port \d+", "", command)
            [port] = free_ports(1)
            return start(f"{command} --port {port}")

        serving = dict.fromkeys(["tunescape ui", "tunescape watch", "tunescape dashboard"], serve)
        by_hand = {**serving, "--opponent human": partial(play, folder=runs)}
        run_commands(smaller("".join(commands), budgets), runs, by_hand)


@pytest.mark.timeout(1200)
@pytest.mark.full("unit/test_page_commands.py::test_commands_are_read")
def test_a_model_in_mlflow(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(runs)
    # MLflow keeps the URI in this variable, too, where each test after this one would find it.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///runs/mlflow.db")
    monkeypatch.setattr(mlflow.tracking._tracking_service.utils, "_tracking_uri", None)
    mlflow.set_tracking_uri("sqlite:///runs/mlflow.db")
    names: dict[str, Any] = {"mlflow": mlflow, "observations": np.zeros((3, 4), np.float32)}
    exec(block_with(f"{SPECS}/mlflow.md", "load_model"), names)
    assert set(names["actions"]) <= {0, 1}
    run_commands("tunescape export runs/cartpole --format mlflow -o model", runs)
    [port] = free_ports(1)
    with servers(runs) as start:
        for text in blocks(f"{SPECS}/mlflow.md", "bash"):
            said = run_commands(smaller(text, {"5001": port}), runs, {"models serve": start})
    assert said.count('{"predictions": [') == 2  # of the file and of the server


@pytest.mark.full("integration/test_readme.py::test_the_examples_tell_one_story")
def test_analysis_of_sweeps(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    names: dict[str, Any] = {}
    page = "analysis/README.md"
    for words in ("leaderboard", "effects_frame", "import compare"):
        exec(block_with(page, words), names)
    assert len(names["curves"]) > 1 and set(names["effects"]["setting"]) == {"double_q", "dueling"}
    assert "PPO" in names["found"].verdict
    assert all(Path(name).stat().st_size > 1000 for name in ("curves.png", "effects.png"))
