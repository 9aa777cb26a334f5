"""Observations as rows: every leaf comes back as it was, whatever the space."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector.utils import batch_space

from trainables.core.data.features import ACTION_MASK, PREV_ACTION, PREV_REWARD, VECTOR
from trainables.core.data.layout import ObservationLayout
from trainables.core.data.preprocessor import Preprocessor
from trainables.core.data.spaces import PLAIN, leaf_spaces
from trainables.core.errors import ConfigError

NESTED = gym.spaces.Dict(
    {
        "camera": gym.spaces.Dict({"rgb": Box(0, 255, (5, 4, 3), np.uint8)}),
        "goal": gym.spaces.Tuple([Discrete(3, start=-1), MultiBinary(2)]),
        "speed": Box(-1, 1, (2, 2), np.float64),
        "switches": MultiDiscrete([2, 3], start=[5, 0]),
        "action_mask": Box(0, 1, (4,), np.int8),
    }
)
PATHS = ["action_mask", "camera/rgb", "goal/0", "goal/1", "speed", "switches"]


def batch(space: gym.Space, size: int, seed: int = 0) -> object:
    batched = batch_space(space, size)
    batched.seed(seed)
    return batched.sample()


def test_leaves_of_a_nested_space_come_back() -> None:
    layout = ObservationLayout(NESTED)
    obs = batch(NESTED, 6)
    rows = layout.empty((3, 6))
    layout.write(rows[1], obs)
    leaves = layout.leaves(rows)
    assert sorted(leaves) == PATHS
    np.testing.assert_array_equal(leaves["camera/rgb"][1], obs["camera"]["rgb"])
    np.testing.assert_array_equal(leaves["goal/0"][1], obs["goal"][0])
    np.testing.assert_array_equal(leaves["goal/1"][1], obs["goal"][1])
    np.testing.assert_array_equal(leaves["speed"][1], obs["speed"])
    assert leaves["camera/rgb"].base is rows and leaves["speed"].dtype == np.float64


def test_torch_reads_the_leaves_in_place() -> None:
    rows = ObservationLayout(NESTED).zeros((2, 3))
    for leaf in ObservationLayout(NESTED).leaves(rows).values():
        tensor = torch.from_numpy(leaf)
        tensor += 1
        assert (leaf == 1).all()


def test_single_observations_and_lists_of_them() -> None:
    layout = ObservationLayout(NESTED)
    NESTED.seed(3)
    first, second = NESTED.sample(), NESTED.sample()
    one, both = layout.rows(first, batched=False), layout.rows([first, second])
    assert one.shape == (1,) and both.shape == (2,)
    assert one[0] == both[0]
    np.testing.assert_array_equal(both["speed"][1], second["speed"])
    plain = ObservationLayout(Discrete(4))
    assert plain.rows(2, batched=False).tolist() == [2]
    assert plain.rows([2, 3]).tolist() == [2, 3]


def test_extras_lie_beside_a_plain_observation() -> None:
    layout = ObservationLayout(Box(-1, 1, (2,)), {PREV_ACTION: 3, PREV_REWARD: 1})
    assert not layout.is_plain
    obs, action = np.ones((4, 2), np.float32), np.eye(3)[[0, 1, 2, 0]]
    rows = layout.rows(obs, {PREV_ACTION: action})
    leaves = layout.leaves(rows)
    np.testing.assert_array_equal(leaves[PLAIN], obs)
    np.testing.assert_array_equal(leaves[PREV_ACTION], action)
    assert not leaves[PREV_REWARD].any()  # not given
    layout.write(rows, obs)
    assert not leaves[PREV_ACTION].any()


@pytest.mark.parametrize("space", [NESTED, Box(0, 1, (3,)), Discrete(3)], ids=str)
def test_a_state_is_a_copy_and_comes_back(space: gym.Space) -> None:
    layout = ObservationLayout(space)
    rows = layout.rows(batch(space, 5))
    state = layout.to_state(rows)
    again = layout.from_state(state)
    assert again.dtype == rows.dtype and (again == rows).all()
    kept = again.copy()
    rows[...] = layout.zeros((5,))
    assert (layout.from_state(state) == kept).all()


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Dict({"a/b": Discrete(2), "a": gym.spaces.Dict({"b": Discrete(2)})}),
        gym.spaces.Dict({"@vector": Discrete(2)}),
    ],
    ids=str,
)
def test_keys_that_cannot_be_told_apart_are_refused(space: gym.Space) -> None:
    with pytest.raises(ConfigError, match=r"the key '.*' is not allowed"):
        leaf_spaces(space)


def test_features_of_a_nested_space() -> None:
    preprocessor = Preprocessor(NESTED, mask="action_mask")
    spec = preprocessor.spec
    assert (spec.num_features, spec.num_mask) == (3 + 2 + 4 + 5, 4)
    assert spec.images["camera/rgb"].shape == (5, 4, 3)
    assert spec.images["camera/rgb"].scale == 255.0
    obs = batch(NESTED, 2)
    layout = ObservationLayout(NESTED)
    leaves = {k: torch.from_numpy(v) for k, v in layout.leaves(layout.rows(obs)).items()}
    features = preprocessor(leaves)
    for row in range(2):
        expected = np.concatenate(
            [
                np.eye(3)[obs["goal"][0][row] + 1],
                obs["goal"][1][row],
                obs["speed"][row].ravel(),
                np.eye(2)[obs["switches"][row][0] - 5],
                np.eye(3)[obs["switches"][row][1]],
            ]
        )
        np.testing.assert_allclose(features[VECTOR][row], expected, rtol=1e-6)
    np.testing.assert_array_equal(features[ACTION_MASK], obs["action_mask"] != 0)
    assert features["camera/rgb"].dtype == torch.uint8
    # Any leading dimensions.
    wide = preprocessor({k: v.unsqueeze(0).unsqueeze(0) for k, v in leaves.items()})
    assert wide[VECTOR].shape == (1, 1, 2, 14) and wide[ACTION_MASK].shape == (1, 1, 2, 4)


@pytest.mark.parametrize(
    ("space", "channels_first", "scale"),
    [
        (Box(0, 255, (84, 84, 3), np.uint8), False, 255.0),
        (Box(0, 255, (4, 84, 84), np.uint8), True, 255.0),
        (Box(0, 1, (10, 10, 4), bool), False, 1.0),
        (Box(0, 10, (7, 7, 3), np.uint8), False, 1.0),
    ],
    ids=str,
)
def test_images(space: Box, channels_first: bool, scale: float) -> None:
    spec = Preprocessor(space).spec
    image = spec.images[PLAIN]
    assert (image.channels_first, image.scale) == (channels_first, scale)
    assert spec.num_features == 0 and not spec.is_vector
