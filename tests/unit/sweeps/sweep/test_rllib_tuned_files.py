"""The files that RLlib's documents name as tuned can be trained as they are, and mean the same."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import Golden, refusals

from experiments.errors import SpecWarning
from experiments.spec.schema import SweepSpec
from experiments.sweep import load as spec_module
from experiments.sweep.load import load_spec
from search_spaces import SpecError
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import make_vector_env

FOLDER = Path(__file__).parents[3] / "rllib_style"
TUNED, OLDER = FOLDER / "tuned.yaml", FOLDER / "tuned_older.yaml"

TF = "framework = 'tf' is left out: everything here is PyTorch"
FRAMES = (
    "frameskip = 1 is left out: RLlib then repeats an action for four frames itself, as is done "
    "here"
)
MEAN = "zero_mean = False is left out: it has no effect on Atari games"
TOWERS = "num_multi_gpu_tower_stacks = 1 is left out: a batch is moved to the GPU in one piece"
LOADERS = "num_data_loader_buffers = 4 is left out: a batch is moved to the GPU in one piece"
SMALL = {"img_height": 42, "img_width": 42}
GAME = {"full_action_space": False, "repeat_action_probability": 0.0}
NO_CHEETAH = "is no longer in gymnasium: 'HalfCheetah-v5' is taken, the same task"

# By the file's name: what its settings are here where they had another name or value, and what is
# said of them. None of them is refused.
OUTCOMES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "pong-ppo": (
        {"env_config": {**GAME, **SMALL}, "model": {"vf_share_layers": True}, "use_kl_loss": True},
        [FRAMES],
    ),
    "cartpole-ppo": ({"num_env_runners": 1, "num_epochs": 6, "lr": 3e-4}, [TF]),
    "pendulum-ppo": (
        {"env": "Pendulum-v1", "lambda_": 0.1, "minibatch_size": 64},
        [
            TF,
            "env 'Pendulum-v0' is no longer in gymnasium: 'Pendulum-v1' is taken, the same task",
        ],
    ),
    "pong-dqn": (
        {
            "env": "PongDeterministic-v4",
            "env_config": SMALL,
            "model": {},
            "num_steps_sampled_before_learning_starts": 10_000,
        },
        [TF, MEAN],
    ),
    "pong-rainbow": (
        {
            "env_config": SMALL,
            "num_gpus_per_learner": 1,
            "num_steps_sampled_before_learning_starts": 10_000,
            "replay_buffer_config": {
                "type": "PrioritizedReplayBuffer",
                "capacity": 50_000,
                "alpha": 0.5,
                "beta": [[0, 0.4], [400_000, 1.0]],
            },
        },
        [MEAN],
    ),
    "atari-dqn": ({"num_gpus_per_learner": 0.2, "double_q": False}, [TF]),
    "atari-duel-ddqn": ({"num_gpus_per_learner": 0.2, "double_q": True}, [TF]),
    "atari-dist-dqn": ({"num_gpus_per_learner": 0.2, "num_atoms": 51}, [TF]),
    "pendulum-sac": (
        {
            "env_config": {"max_episode_steps": 200},
            "replay_buffer_config": {"type": "ReplayBuffer"},
            "critic_lr": 3e-4,
        },
        [TF],
    ),
    "halfcheetah-sac": (
        {"env": "HalfCheetah-v5", "env_config": {"max_episode_steps": 1000}, "alpha_lr": 3e-4},
        [TF, f"env 'HalfCheetah-v3' {NO_CHEETAH}"],
    ),
    "pong-appo": (
        {
            "env_config": {**GAME, **SMALL},
            "circular_buffer_num_batches": 4,
            "circular_buffer_iterations_per_batch": 2,
            "max_requests_in_flight_per_env_runner": 1,
        },
        [FRAMES, TOWERS],
    ),
    "halfcheetah-appo": (
        {
            "env": "HalfCheetah-v5",
            "circular_buffer_num_batches": 16,
            "circular_buffer_iterations_per_batch": 32,
            "lr": [[0, 0.0005], [150_000_000, 0.000001]],
        },
        [TOWERS, f"env 'HalfCheetah-v2' {NO_CHEETAH}"],
    ),
    "pong-impala": ({"env_config": GAME, "num_env_runners": 128}, [FRAMES]),
    "pong-impala-fast": (
        {
            "env_config": SMALL,
            "num_learners": 2,
            "num_gpus_per_learner": 1,
            "train_batch_size_per_learner": 500,
        },
        [LOADERS],
    ),
    "pong-impala-vectorized": ({"env_config": GAME, "num_envs_per_env_runner": 10}, [FRAMES]),
    "atari-impala-multi-gpu": (
        {
            "env_config": GAME,
            "num_learners": 4,
            "num_gpus_per_learner": 1,
            "train_batch_size_per_learner": 1000,
        },
        [FRAMES],
    ),
    "atari-impala": ({"lr": [[0, 0.0005], [20_000_000, 1e-12]]}, []),
}  # fmt: skip
GAMES = ["Breakout", "BeamRider", "Qbert", "SpaceInvaders"]


@pytest.fixture
def without_envs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments are not tried: the libraries of some are extras."""
    monkeypatch.setattr(spec_module, "check_env", lambda *_: None)


def load(file: Path, name: str, *overrides: str) -> tuple[SweepSpec, list[str]]:
    """The spec of an experiment, and what is said about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SpecWarning)
        spec = load_spec(file, overrides, experiment=name)
    notes = [str(item.message) for item in caught if item.category is SpecWarning]
    return spec, sorted(re.sub(r"^.*\.yaml:\d+: ", "", note) for note in notes)


def test_every_one_is_here() -> None:
    assert set(yaml.safe_load(TUNED.read_text())) == set(OUTCOMES)


@pytest.mark.usefixtures("without_envs")
def test_outcomes() -> None:
    for name, (expected, said) in OUTCOMES.items():
        spec, notes = load(TUNED, name)
        assert ({key: spec.config[key] for key in expected}, notes) == (expected, sorted(said)), (
            name
        )
        if name in ("atari-impala", "atari-dqn", "atari-duel-ddqn", "atari-dist-dqn"):
            grid = [f"{game}NoFrameskip-v4" for game in GAMES]
            assert spec.search_space == {"env": {"grid": grid}}


@pytest.mark.parametrize(
    ("name", "library"),
    [("pong-ppo", "ale_py"), ("pong-rainbow", "ale_py"), ("halfcheetah-appo", "mujoco")],
)
def test_its_environment_is_there(name: str, library: str) -> None:
    pytest.importorskip(library)
    spec, _ = load(TUNED, name)  # tries it
    env = make_vector_env(spec.config["env"], spec.config.get("env_config"))
    if library == "ale_py":
        assert (env.single_observation_space.shape or ())[-2:] == (42, 42)
    env.close()


def test_names_of_older_releases(without_envs: None) -> None:
    spec, notes = load(OLDER, "atari-dist-dqn")
    assert not notes
    assert spec.config == {
        "env": "BreakoutNoFrameskip-v4",
        "double_q": False,
        "dueling": False,
        "num_atoms": 51,
        "noisy": False,
        "n_step": 1,
        "num_gpus_per_learner": 0.2,
        "rollout_fragment_length": 4,
        "train_batch_size_per_learner": 32,
        "num_steps_sampled_before_learning_starts": 20_000,
        "exploration_config": {"epsilon_timesteps": 200_000, "final_epsilon": 0.01},
        "replay_buffer_config": {
            "type": "ReplayBuffer",
            "capacity": 1_000_000,
            "alpha": 0.5,
            "beta": [[0, 0.4], [2_000_000, 1.0]],
        },
        "target_network_update_freq": 8000,
        "lr": 6.25e-5,
        "adam_epsilon": 1.5e-4,
        "hiddens": [512],
        "min_sample_timesteps_per_iteration": 10_000,
    }
    spec, notes = load(OLDER, "pong-dqn")
    assert spec.config["exploration_config"] == {
        "epsilon_timesteps": 200_000,
        "final_epsilon": 0.01,
    }
    assert spec.config["model"] == {} and spec.config["frame_stack"] == 1
    assert notes == [
        "grayscale = False is left out: games are seen in grey, as by RLlib; "
        "env_config={'grayscale': False} shows colours"
    ]
    with pytest.raises(SpecError, match=r"20 x 160 slots .* set rollout_fragment_length='auto' or"):
        load(OLDER, "pong-ppo")
    spec, notes = load(OLDER, "pong-ppo", "config.rollout_fragment_length=auto")
    assert not notes
    assert spec.config == {
        "env": "PongNoFrameskip-v4",
        "num_env_runners": 32,
        "num_envs_per_env_runner": 5,
        "num_learners": 2,
        "num_gpus_per_learner": 1,
        "train_batch_size_per_learner": 2500,
        "rollout_fragment_length": "auto",
        "model": {"vf_share_layers": True},
    }
    spec, notes = load(OLDER, "pong-appo")
    assert spec.config == {
        "env": "ALE/Pong-v5",
        "env_config": SMALL,
        "num_learners": 4,
        "num_gpus_per_learner": 1,
        "num_env_runners": 31,
        "train_batch_size_per_learner": 1000,
        "rollout_fragment_length": 50,
        "model": {
            "conv_filters": [[16, 4, 2], [32, 4, 2], [64, 4, 2], [128, 4, 2]],
            "fcnet_hiddens": [256],
            "fcnet_activation": "relu",
        },
    }
    assert not spec.search_space
    assert notes == [
        "framework = {'grid_search': ['tf', 'torch']} is left out: everything here is PyTorch",
        "vtrace_drop_last_ts = False is left out: every step is kept: the last one's successor has "
        "a value, too",
    ]
    spec, _ = load(OLDER, "pendulum-sac")
    for model in ("q_model_config", "policy_model_config"):
        assert spec.config[model] == {"fcnet_activation": "relu", "fcnet_hiddens": [256, 256]}


def write(folder: Path, run: str, env: str, config: dict[str, Any]) -> Path:
    path = folder / "x.yaml"
    path.write_text(yaml.safe_dump({"x": {"run": run, "env": env, "config": config}}))
    return path


UNTRANSLATED: list[tuple[str, str, dict[str, Any]]] = [
    ("IMPALA", "ALE/Pong-v5", {"num_gpus": 3, "train_batch_size": 500}),
    ("PPO", "ALE/Pong-v5", {"model": {"dim": 42}, "env_config": {"img_height": 96}}),
    ("PPO", "CartPole-v1", {"model": {"dim": 42}}),
    ("IMPALA", "CartPole-v1", {"minibatch_buffer_size": 4, "num_sgd_iter": 2}),
    ("DQN", "CartPole-v1", {"final_prioritized_replay_beta": 1.0, "replay_buffer_config": 3}),
]


@pytest.mark.usefixtures("without_envs")
def test_what_cannot_be_translated(tmp_path: Path, golden: Golden) -> None:
    def read(run: str, env: str, config: dict[str, Any]) -> None:
        load(write(tmp_path, run, env, config), "x")

    golden(
        "sweeps/rllib_tuned",
        refusals(read, UNTRANSLATED, SpecError, replace={str(tmp_path): "<folder>"}),
    )


def test_one_pass_over_several_batches_is_one_pass(tmp_path: Path) -> None:
    spec, notes = load(write(tmp_path, "IMPALA", "CartPole-v1", {"minibatch_buffer_size": 4}), "x")
    assert spec.config == {"env": "CartPole-v1"}
    assert notes == ["minibatch_buffer_size = 4 is left out: it has no effect with one pass"]


@pytest.mark.usefixtures("without_envs")
def test_frames_as_the_game_gives_them_are_left_alone(tmp_path: Path) -> None:
    config = {"is_atari": False, "env_config": {"frameskip": 1}}
    spec, notes = load(write(tmp_path, "PPO", "ALE/Pong-v5", config), "x")
    assert spec.config["env_config"] == {"frameskip": 1} and not notes


@pytest.mark.parametrize(("env", "newest"), [("HalfCheetah-v3", "v5"), ("Hopper-v2", "v5")])
def test_elsewhere_the_error_says_which_version_to_write(env: str, newest: str) -> None:
    name = env.partition("-")[0]
    with pytest.raises(ConfigError) as error:
        make_vector_env(env)
    assert str(error.value) == (
        f"env {env!r} is no longer in gymnasium; write '{name}-{newest}'"
    )  # fmt: skip
