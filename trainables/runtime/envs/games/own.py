"""Small environments for what larger ones seldom show. Importing this registers them.

- `tunescape/StatelessCartPole-v0`: CartPole-v1 without its velocities. One observation, the cart's
  position and the pole's angle, does not say which way the pole falls.
- `tunescape/MaskedBandit-v0`: which arms may be pulled changes with every step.
- `tunescape/NestedCourier-v0`: observations and actions are Dict and Tuple spaces.
- `tunescape/TMaze-v0`: what is seen once, at first, decides what pays at the end.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TransformObservation

STATELESS_CARTPOLE = "tunescape/StatelessCartPole-v0"
MASKED_BANDIT = "tunescape/MaskedBandit-v0"
NESTED_COURIER = "tunescape/NestedCourier-v0"
TMAZE = "tunescape/TMaze-v0"

_SEEN = slice(0, None, 2)  # of position, velocity, angle, angular velocity


def _without_velocities(obs: np.ndarray) -> np.ndarray:
    """Return position and angle, `[..., 2]`, of observations `[..., 4]`."""
    return obs[..., _SEEN]


def _seen_space(space: gym.Space) -> gym.spaces.Box:
    assert isinstance(space, gym.spaces.Box)
    return gym.spaces.Box(_without_velocities(space.low), _without_velocities(space.high))


def stateless_cartpole(**env_config: Any) -> gym.Env:
    """Make one CartPole that shows no velocities; the arguments are CartPole's."""
    env = CartPoleEnv(**env_config)
    return TransformObservation(env, _without_velocities, _seen_space(env.observation_space))


class StatelessCartPoleVectorEnv(CartPoleVectorEnv):
    """All slots at once, as gymnasium's own."""

    def __init__(self, num_envs: int = 1, **env_config: Any):
        super().__init__(num_envs, **env_config)
        self.single_observation_space = _seen_space(self.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        obs, info = super().reset(**kwargs)
        return _without_velocities(obs), info

    def step(self, action: Any) -> tuple[Any, ...]:
        obs, *rest = super().step(action)
        return _without_velocities(obs), *rest


class MaskedBandit(gym.Env):
    """Pull the arm that pays best among those that may be pulled at this step.

    The observation has a `context`, which decides what each arm pays, and an `action_mask` of those
    that may be pulled: every arm by chance, at least one. Pulling another arm raises. After the
    last of 10 steps nothing may be pulled.

    Attributes:
        payoffs: Reward of each arm in each context, `[3, 6]`: a permutation of 0, 0.2, …, 1.
    """

    num_steps = 10
    payoffs = np.array([[2, 0, 5, 1, 4, 3], [1, 4, 0, 5, 3, 2], [5, 3, 1, 2, 0, 4]]) / 5

    def __init__(self) -> None:
        contexts, arms = self.payoffs.shape
        self.observation_space = spaces.Dict(
            {"context": spaces.Discrete(contexts), "action_mask": spaces.MultiBinary(arms)}
        )
        self.action_space = spaces.Discrete(arms)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps_left = self.num_steps
        return self._next_observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._mask[action]:
            raise ValueError(f"arm {action} may not be pulled; the mask is {self._mask}")
        reward = float(self.payoffs[self._context, action])
        self._steps_left -= 1
        return self._next_observation(), reward, self._steps_left == 0, False, {}

    def _next_observation(self) -> dict[str, Any]:
        contexts, arms = self.payoffs.shape
        self._context = self.np_random.integers(contexts)
        self._mask = np.zeros(arms, np.int8)
        if self._steps_left:
            self._mask[:] = self.np_random.random(arms) < 0.5
            self._mask[self.np_random.integers(arms)] = 1
        return self._observation()

    def _observation(self) -> dict[str, Any]:
        return {"context": self._context, "action_mask": self._mask.copy()}

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint needs to go on with the episode."""
        return {"context": int(self._context), "mask": self._mask, "left": self._steps_left}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on with an episode."""
        self._context, self._steps_left = np.int64(state["context"]), int(state["left"])
        self._mask = np.array(state["mask"], np.int8)


class NestedCourier(gym.Env):
    """Fly to a target and, at every step, use the gear and the lamps that are asked for.

    The observation is `{"map": {"position", "target"}, "orders": (gear, lamps)}`, the action
    `{"move": velocity, "panel": (gear, lamps)}`. The reward of a step is the mean of three shares:
    closeness (1 - distance, at least 0), the gear (1 if it is right) and the lamps (likewise), so
    that nobody does well who ignores a part of either space. An episode has 20 steps.
    """

    num_steps, speed = 20, 0.2

    def __init__(self) -> None:
        area, panel = spaces.Box(-1, 1, (2,)), (spaces.Discrete(3), spaces.MultiBinary(2))
        self.observation_space = spaces.Dict(
            {
                "map": spaces.Dict({"position": area, "target": area}),
                "orders": spaces.Tuple(panel),
            }
        )
        self.action_space = spaces.Dict(
            {"move": spaces.Box(-1, 1, (2,)), "panel": spaces.Tuple(panel)}
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._position, self._target = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        self._steps_left = self.num_steps
        self._draw_orders()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        gear, lamps = action["panel"]
        moved = self._position + self.speed * np.asarray(action["move"], np.float32)
        self._position = moved.clip(-1, 1)
        closeness = max(0.0, 1 - float(np.linalg.norm(self._target - self._position)))
        is_right = (gear == self._gear, bool((lamps == self._lamps).all()))
        self._steps_left -= 1
        self._draw_orders()
        reward = (closeness + sum(is_right)) / 3
        return self._observation(), reward, False, self._steps_left == 0, {}

    def _draw_orders(self) -> None:
        self._gear = self.np_random.integers(3)
        self._lamps = self.np_random.integers(2, size=2).astype(np.int8)

    def _observation(self) -> dict[str, Any]:
        return {
            "map": {"position": self._position.copy(), "target": self._target.copy()},
            "orders": (self._gear, self._lamps.copy()),
        }

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint needs to go on with the episode."""
        return {
            "position": self._position,
            "target": self._target,
            "gear": int(self._gear),
            "lamps": self._lamps,
            "left": self._steps_left,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on with an episode."""
        self._position = np.array(state["position"], np.float32)
        self._target = np.array(state["target"], np.float32)
        self._gear, self._steps_left = np.int64(state["gear"]), int(state["left"])
        self._lamps = np.array(state["lamps"], np.int8)


class TMaze(gym.Env):
    """Pass along a corridor, and at its end turn to the side that a cue showed at its beginning.

    The T-maze of Bakker (2001), "Reinforcement learning with long short-term memory", without the
    walking: every step leads on, so that all there is to learn is to remember. Who does not gets
    one half on average, however they turn.

    The observation is three numbers, 0 or 1: the cue says up, the cue says down, here is the
    junction. The cue is in an episode's first observation, and the corridor is all zeros. Action 0
    is up and 1 is down; it counts at the junction alone, where it ends the episode. The reward is 1
    if that is the side of the cue, and 0 otherwise and at all other steps. The last observation,
    after which nothing can be done, shows the cue again, whatever the turn was. Without it the cue
    and the turn would tell something only together (it is their exclusive or that pays), which
    takes a world model several times as long to find out.

    Attributes:
        length: Steps from the cue to the junction; an episode has one more.
    """

    up, down = range(2)

    def __init__(self, length: int = 8) -> None:
        if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
            raise ValueError(
                f"length = {length!r}: a T-maze's corridor takes a number of steps, at least 1"
            )
        self.length = int(length)
        self.observation_space = spaces.Box(0, 1, (3,))
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._cue, self._position = int(self.np_random.integers(2)), 0
        return self._seen(self._cue), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        turns = self._position == self.length
        if turns:
            return self._seen(self._cue), float(action == self._cue), True, False, {}
        self._position += 1
        return self._seen(2 if self._position == self.length else None), 0.0, False, False, {}

    @staticmethod
    def _seen(number: int | None) -> np.ndarray:
        obs = np.zeros(3, np.float32)
        if number is not None:
            obs[number] = 1
        return obs

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint needs to go on with the episode."""
        return {"cue": self._cue, "position": self._position}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on with an episode."""
        self._cue, self._position = int(state["cue"]), int(state["position"])


gym.register(
    STATELESS_CARTPOLE,
    entry_point=f"{__name__}:stateless_cartpole",
    vector_entry_point=f"{__name__}:{StatelessCartPoleVectorEnv.__name__}",
    max_episode_steps=500,
    reward_threshold=475.0,
)
gym.register(MASKED_BANDIT, entry_point=f"{__name__}:{MaskedBandit.__name__}")
gym.register(NESTED_COURIER, entry_point=f"{__name__}:{NestedCourier.__name__}")
gym.register(TMAZE, entry_point=f"{__name__}:{TMaze.__name__}")
