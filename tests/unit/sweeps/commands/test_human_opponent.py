"""What a human sees of a game, and what may be typed."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from experiments.commands.evaluation.human.shown_observation import marks_text, observation_text
from experiments.commands.evaluation.human.typed_action import (
    NotAnAction,
    allowed_text,
    check_can_be_typed,
    read_action,
)
from experiments.errors import ExperimentError

FIVE = gym.spaces.Discrete(5, start=2)
PAIR = gym.spaces.MultiDiscrete([2, 3])
BOX = gym.spaces.Box(-1.0, 2.0, (2,), np.float32)
WHOLE = gym.spaces.Box(0, 9, (1,), np.int8)
BITS = gym.spaces.MultiBinary(2)


def board(*, height: int = 3, width: int = 3, own: Any = (), others: Any = ()) -> np.ndarray:
    planes = np.zeros((height, width, 2), np.int8)
    for plane, cells in enumerate((own, others)):
        for cell in cells:
            planes[(*np.unravel_index(cell, (height, width)), plane)] = 1
    return planes


# ---------------------------------------------------------------------- what is seen


def test_empty_cells_show_the_action_that_takes_them() -> None:
    planes = board(own=[4], others=[0, 8])
    mask = np.ones(9, np.int8)
    mask[[0, 4, 8]] = 0
    shown = observation_text({"observation": planes, "action_mask": mask}, mask, ("action_mask",))
    assert [line.split() for line in shown.splitlines()] == [
        ["o", "1", "2"],
        ["3", "x", "5"],
        ["6", "7", "o"],
    ]
    # Planes may stand first, too.
    assert observation_text(np.moveaxis(planes, 2, 0), mask) == shown


def test_cells_show_no_numbers_that_are_no_actions_of_theirs() -> None:
    """Where another cell is allowed, or a full one, a place is not what an action means."""
    planes = board(own=[4])
    for mask in (None, np.ones(9), np.zeros(9), np.ones(5)):
        rows = [line.split() for line in observation_text(planes, mask).splitlines()]
        assert rows == [[".", ".", "."], [".", "x", "."], [".", ".", "."]]


def test_columns_have_numbers_where_actions_are_columns() -> None:
    planes = board(height=2, width=4, own=[4], others=[5, 1])
    rows = [line.split() for line in observation_text(planes, np.ones(4)).splitlines()]
    assert rows == [["0", "1", "2", "3"], [".", "o", ".", "."], ["x", "o", ".", "."]]


@pytest.mark.parametrize(
    "values",
    [
        np.ones((3, 3, 2), np.int8),  # two pieces in a cell
        np.full((3, 3, 2), 0.5),
        np.zeros((3, 3, 1), np.int8),
        np.zeros((8, 8, 9), np.int8),
        np.zeros((3, 3)),
        np.zeros(4),
    ],
)
def test_what_is_no_board_is_shown_in_numbers(values: np.ndarray) -> None:
    assert observation_text(values).startswith("[") and not marks_text(values)


def test_parts_of_an_observation_have_their_names() -> None:
    seen = {"own": np.array([1.0, 0.25]), "board": board(own=[0]), "hidden": np.ones(3)}
    shown = observation_text(seen, None, ("hidden",))
    assert shown.splitlines()[:3] == ["own: [1.   0.25]", "board:", " x   .   ."]
    assert marks_text(seen) == "Of what you observe x is plane 0, o is plane 1."
    assert observation_text((np.array(3), np.array(4))) == "3\n4"


# ---------------------------------------------------------------------- what is typed


@pytest.mark.parametrize(
    ("space", "text", "action"),
    [
        (FIVE, " 6 ", 6),
        (PAIR, "1 2", [1, 2]),
        (BOX, "-1 1.5", [-1, 1.5]),
        (WHOLE, "9", [9]),
        (BITS, "0 1", [0, 1]),
    ],
)
def test_actions_are_read(space: gym.Space, text: str, action: Any) -> None:
    found = read_action(text, space)
    np.testing.assert_array_equal(found, action)
    assert found.dtype == space.dtype and found.shape == space.shape


NO_ACTIONS: list[tuple[gym.Space, str, str]] = [
    (FIVE, "1", "2-6"),
    (FIVE, "7", "2-6"),
    (FIVE, "2.0", "2-6"),
    (FIVE, "", "2-6"),
    (FIVE, "2 3", "2-6"),
    (PAIR, "1 3", "2 whole numbers with spaces between: 0 to 1, 0 to 2"),
    (PAIR, "1", "2 whole numbers with spaces between: 0 to 1, 0 to 2"),
    (BOX, "0 2.5", "2 numbers with spaces between: -1 to 2, -1 to 2"),
    (BOX, "0 nan", "2 numbers with spaces between: -1 to 2, -1 to 2"),
    (WHOLE, "300", "whole number 0 to 9"),
    (WHOLE, "1.5", "whole number 0 to 9"),
    (BITS, "0 2", "2 whole numbers with spaces between: 0 to 1, 0 to 1"),
]


def test_what_is_no_action_is_refused_with_what_is_allowed() -> None:
    for space, text, allowed in NO_ACTIONS:
        with pytest.raises(NotAnAction) as refused:
            read_action(text, space)
        assert str(refused.value) == f"{text!r} is not allowed; allowed: {allowed}"


def test_a_mask_says_what_is_allowed() -> None:
    mask = np.array([0, 1, 1, 0, 1], bool)
    assert allowed_text(FIVE, mask) == "3-4, 6"
    assert read_action("6", FIVE, mask) == 6
    with pytest.raises(NotAnAction, match="'5' is not allowed; allowed: 3-4, 6"):
        read_action("5", FIVE, mask)


@pytest.mark.parametrize(
    "space", [gym.spaces.Dict({"a": FIVE}), gym.spaces.Box(0, 1, (17,)), gym.spaces.Text(3)]
)
def test_actions_that_nobody_types_are_refused(space: gym.Space) -> None:
    with pytest.raises(ExperimentError, match=r"--opponent human: the agent 'left' does .*typed"):
        check_can_be_typed(space, "left")
    for typed in (FIVE, PAIR, BOX, WHOLE, BITS):
        check_can_be_typed(typed, "left")
