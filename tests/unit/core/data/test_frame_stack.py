"""Stacked frames are those of gymnasium's wrapper, in rollouts, in replay and in acting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FrameStackObservation
from small_runs import settings_of

from trainables import Policy, PPOConfig, registry
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.data.frame_stack import FrameStack
from trainables.core.errors import ConfigError
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.sampling.env_runner import EnvRunner

K, SLOTS = 4, 3


class Film(gym.Env):
    """Episodes of unequal lengths; every frame says whose it is, whatever is done."""

    def __init__(self, slot: int = 0, shape: tuple[int, ...] = (3, 4, 1)):
        self.observation_space = Box(0, 255, shape, np.uint8)
        self.action_space = Discrete(2)
        self._slot, self._episode = slot, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode, self._time = self._episode + 1, 0
        return self._frame(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        length = 1 + (3 * self._episode + 2 * self._slot) % 7
        return self._frame(), 1.0, self._time >= length, False, {}

    def _frame(self) -> np.ndarray:
        frame = np.zeros(self.observation_space.shape, np.uint8)
        frame.flat[:3] = self._slot + 1, self._episode, self._time + 1
        return frame


def vector(wrap: Any = lambda env: env, **options: Any) -> SyncVectorEnv:
    makers = [lambda slot=slot: wrap(Film(slot, **options)) for slot in range(SLOTS)]
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP)


def wrapped_stacks(num_steps: int) -> np.ndarray:
    """What the wrapper shows, `[T, N, K, *shape]`."""
    env = vector(lambda env: FrameStackObservation(env, K, padding_type="zero"))
    rows = [env.reset(seed=0)[0].copy()]
    for _ in range(num_steps):
        rows.append(env.step(np.zeros(SLOTS, int))[0].copy())
    return np.stack(rows)


def relative(frames: torch.Tensor) -> torch.Tensor:
    """A connector that zeros turn into NaN."""
    frames = frames.float()
    return 1 + frames / frames.amax((1, 2, 3), keepdim=True)


def runner_of(**settings: Any) -> EnvRunner:
    config = PPOConfig.from_dict({"env": "Film", "frame_stack": K, **settings})
    env = vector()
    model = {"fcnet_hiddens": [8], "conv_filters": [[4, 2, 1]], **config.model}
    space = env.single_observation_space
    policy = Policy(
        space,
        env.single_action_space,
        model,
        frame_stack=K,
        env_to_module_connector=config.env_to_module_connector,
        seed=0,
    )
    return EnvRunner(config, {DEFAULT_MODULE_ID: policy}, env, np.random.SeedSequence(0))


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "max_seq_len": 3}])
def test_rollouts_show_what_the_wrapper_shows(model: dict[str, Any]) -> None:
    runner, expected, start = runner_of(model=model), wrapped_stacks(60), 0
    for length in (1, 2, 7, 30, 20):  # also fragments shorter than a stack
        [rollout] = runner.sample(length)[0].values()
        assert rollout.obs.shape == (length + 1, SLOTS, 3, 4, 1)  # one frame a row
        seen = runner.policy.observations.seen(rollout).numpy()
        np.testing.assert_array_equal(seen, expected[start : start + length + 1])
        start += length


@pytest.mark.parametrize("storage", ["native", "compressed"])
def test_replay_shows_what_the_wrapper_shows(storage: str) -> None:
    if storage == "compressed":
        pytest.importorskip("pyarrow")
    runner, expected = runner_of(), wrapped_stacks(60)
    by_frame = {row[-1].tobytes(): row for row in expected.reshape(-1, *expected.shape[2:])}
    config = ReplayBufferConfig(capacity=25 * SLOTS, storage=storage)
    layout, seed = runner.policy.observations.layout, np.random.SeedSequence(0)
    replay = ReplayBuffer(config, layout, (), torch.int64, SLOTS, seed, num_frames=K)
    for _ in range(6):  # round the ring
        [rollout] = runner.sample(10)[0].values()
        replay.add(rollout)
        drawn = replay.sample(200, gamma=0.9, n_step=(1, 3))
        ring = replay._rows
        age = (drawn["ids"].numpy() // SLOTS - ring.oldest(np.array(0))) % ring.num_positions
        for name, whole in (("obs", age >= K - 1), ("next_obs", age >= K - 2)):
            for stack, is_whole in zip(drawn[name].numpy(), whole, strict=True):
                known = by_frame[stack[-1].tobytes()]
                if not is_whole:  # what was overwritten is gone
                    known = np.where(stack.any(axis=(1, 2, 3), keepdims=True), known, 0)
                np.testing.assert_array_equal(stack, known)
    sequences = replay.sample_sequences(20, 5)["obs"].numpy()
    assert sequences.shape[:3] == (6, 20, K)


def test_a_new_fragment_that_follows_nothing_sees_nothing_before() -> None:
    runner = runner_of()
    replay = ReplayBuffer(
        ReplayBufferConfig(capacity=100),
        runner.policy.observations.layout,
        (),
        torch.int64,
        SLOTS,
        np.random.SeedSequence(0),
        num_frames=K,
    )
    for seed in (1, 2):
        replay.add(runner.sample(5)[0]["default_policy"])
        runner.reseed(np.random.SeedSequence(seed))
    replay.add(runner.sample(1)[0]["default_policy"])
    start = 2 * 6 * SLOTS  # after two rollouts of five rows and a sentinel each
    stacks = replay._rows.observations(np.arange(start, start + SLOTS))
    assert stacks[:, -1].any(axis=(1, 2, 3)).all() and not stacks[:, :-1].any()


def test_stacks_in_channels_or_side_by_side() -> None:
    frames = torch.arange(2 * 2 * 12).reshape(2, 2, 12)  # two stacks of two frames
    for shape, stacked in (
        ((3, 4, 1), (3, 4, 2)),
        ((1, 3, 4), (2, 3, 4)),
        ((3, 4), (2, 3, 4)),
        ((12,), (24,)),
        ((2, 6), (24,)),  # no image: it would be no larger than its channels are many
    ):
        stack = FrameStack(Box(0, 1, shape, np.float32), 2)
        joined = stack.join(frames.reshape(2, 2, *shape))
        assert stack.space.shape == stacked == tuple(joined.shape[1:])
    last = FrameStack(Box(0, 1, (3, 4, 1), np.float32), 2).join(frames.reshape(2, 2, 3, 4, 1))
    torch.testing.assert_close(last[..., 0].reshape(2, 12), frames[:, 0])
    torch.testing.assert_close(last[..., 1].reshape(2, 12), frames[:, 1])


@pytest.mark.parametrize("name", ["PPO", "DQN", "SAC"])
def test_a_loaded_policy_acts_as_evaluation_did(name: str, tmp_path: Path) -> None:
    settings = settings_of(name, "CartPole-v1", frame_stack=3, evaluation_duration=1)
    if name == "PPO":
        settings["observation_filter"] = "MeanStdFilter"
    algo = registry.get_algorithm(name)(config=settings)
    algo.train()
    acting: list[Any] = []
    policy, act = algo.get_policy(), algo.get_policy().act

    def recorded(rows: Any, *args: Any) -> Any:
        acted = act(rows, *args)
        acting.append((rows[0].copy(), int(acted.env_actions[0]), acted.inputs[0].clone()))
        return acted

    policy.act = recorded  # type: ignore[method-assign]
    length = int(algo.evaluate()["episode_len_mean"])
    policy.save(tmp_path / "policy")
    algo.stop()

    loaded, state = Policy.load(tmp_path / "policy"), None
    for obs, action, inputs in acting[:length]:
        computed = loaded.compute_single_action(obs, state, explore=False, full_fetch=True)
        state = computed.state
        assert computed.actions == action
        expected = pytest.approx(inputs.numpy(), abs=1e-5)
        assert computed.extra["action_dist_inputs"] == expected


@pytest.mark.parametrize(
    ("shape", "k", "num_channels"),
    [
        ((10, 10, 4), 4, 16),  # MinAtar: a stack has more channels than it is wide
        ((7, 7, 3), 4, 12),
        ((3, 10, 10), 4, 12),
        ((84, 84), 4, 4),
        ((4, 84, 84), 2, 8),
    ],
)
def test_the_first_convolution_sees_the_channels_of_all_frames(
    shape: tuple[int, ...], k: int, num_channels: int
) -> None:
    policy = Policy(Box(0, 255, shape, np.uint8), Discrete(3), frame_stack=k, seed=0)
    first = next(m for m in policy.module.modules() if isinstance(m, torch.nn.Conv2d))
    assert first.in_channels == num_channels
    computed = policy.compute_actions(np.zeros((2, *shape), np.uint8))
    assert computed.actions.shape == (2,)


def _side_by_side(obs: Any) -> torch.Tensor:
    return torch.cat([obs["a"], obs["b"].unsqueeze(-1)], -1)


def test_only_one_box_can_be_stacked() -> None:
    space = Dict({"a": Box(-1, 1, (3,)), "b": Discrete(2)})
    for connector in (None, _side_by_side):  # frames are kept as they are stored
        with pytest.raises(ConfigError, match=r"frame_stack = 4 needs .* observations of one Box"):
            Policy(space, Discrete(2), frame_stack=4, env_to_module_connector=connector)
    with pytest.raises(ConfigError, match="frame_stack = 4 needs observations of one Box, not Dis"):
        Policy(Discrete(3), Discrete(2), frame_stack=4)
    model = {"use_lstm": True, "lstm_use_prev_action": True}
    with pytest.raises(ConfigError, match="frame_stack = 2 and a memory that sees previous"):
        Policy(Box(-1, 1, (3,)), Discrete(2), model, frame_stack=2)


def test_connectors_do_not_see_what_lies_before_an_episode() -> None:
    runner, stacks = runner_of(env_to_module_connector=relative), wrapped_stacks(20)
    [rollout] = runner.sample(20)[0].values()
    observations = runner.policy.observations
    features = observations.features(observations.seen(rollout))
    assert isinstance(features, dict)
    [made] = features.values()
    frames = torch.from_numpy(stacks).flatten(0, 2)
    expected = torch.where(frames.bool().any(dim=(1, 2, 3), keepdim=True), relative(frames), 0)
    expected = expected.unflatten(0, stacks.shape[:3]).movedim(2, -2).flatten(-2)
    assert (expected[0, 0, ..., : K - 1] == 0).all() and not expected.isnan().any()
    torch.testing.assert_close(made, expected)
    blank = torch.zeros(1, K, 3, 4, 1, dtype=torch.uint8)
    newest = FrameStack.connected(blank, 3, lambda frames: frames + 1)[0, :, 0, 0, 0]
    assert newest.tolist() == [0] * (K - 1) + [1]  # a blank observation is seen, too
    for shape in ((), (2,)):  # also of plain numbers
        stack = torch.ones(5, K, *shape)
        assert FrameStack.connected(stack, len(shape), lambda f: f * 2).eq(2).all()
