"""Behind a server, too, a policy sees the action before and what it gave."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Space

from trainables import Policy
from trainables.core.export.serving import example_inputs, serve

OBSERVATIONS = Box(-1, 1, (3,), np.float32)
BOTH = {"lstm_use_prev_action": True, "lstm_use_prev_reward": True}


@pytest.mark.parametrize(
    "actions",
    [Discrete(3, start=1), Box(-2, 3, (2,), np.float32), Dict({"go": Discrete(2)})],
    ids=["discrete", "box", "dict"],
)
@pytest.mark.parametrize("seen", [BOTH, {"lstm_use_prev_reward": True}], ids=["both", "reward"])
def test_previous_actions_and_rewards_reach_the_policy(
    actions: Space, seen: dict[str, bool]
) -> None:
    model = {"use_lstm": True, "lstm_cell_size": 8, **seen}
    policy = Policy(OBSERVATIONS, actions, model, seed=0)
    given = example_inputs(policy)
    assert isinstance(given, dict)
    assert "prev_reward" in given
    assert ("state/@prev_action" in given) == ("lstm_use_prev_action" in seen)

    OBSERVATIONS.seed(1)
    state, action, reward, differ = policy.get_initial_state(), None, None, False
    for step in range(6):
        obs = OBSERVATIONS.sample()
        given["obs"] = obs[None]
        forgetful = serve(policy, {k: v for k, v in given.items() if "prev" not in k})
        served = serve(policy, given)
        assert isinstance(served, dict) and isinstance(forgetful, dict)
        known = {"prev_reward": reward}
        if "lstm_use_prev_action" in seen:
            known["prev_action"] = action
        expected = policy.compute_single_action(obs, state, explore=False, **known)
        for name, part in expected.state.items():
            np.testing.assert_array_equal(served[f"state/{name}"][0], part)
        differ = differ or any(
            (forgetful[f"state/{n}"] != served[f"state/{n}"]).any() for n in state
        )
        state, action, reward = expected.state, expected.actions, float(step + 1)
        given = {k: v for k, v in served.items() if k.startswith("state/")}
        given["prev_reward"] = np.array([reward], np.float32)
    assert differ  # else the test would pass without them
