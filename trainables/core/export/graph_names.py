"""Names of the inputs and outputs of a policy's graph: one story for torch, ONNX and MLflow.

Inputs:
- the observation's leaves by path, `obs` if it is not nested;
- `prev_reward`, of a policy that sees the reward before;
- `state/<name>`, of a policy that has a state: of a memory, the last frames (`@frames`), the
  encoded action before (`@prev_action`). Zeros begin an episode.

Outputs:
- `action`, or `action/<path>` of a nested space: for the environment;
- `action_dist_inputs` and `vf_preds`, as `Policy.compute_actions` calls them;
- `next_state/<name>`: to be given as `state/<name>` next. ONNX knows no output that is called as
  an input is.
"""

from __future__ import annotations

from collections.abc import Collection

import gymnasium as gym

from trainables.core.data.spaces import PLAIN, leaf_spaces
from trainables.core.errors import ConfigError

OBS, ACTION = "obs", "action"
PREVIOUS_REWARD = "prev_reward"
DIST_INPUTS, VALUES = "action_dist_inputs", "vf_preds"
STATE, NEXT_STATE = "state/", "next_state/"


def observation_names(space: gym.Space) -> dict[str, str]:
    """Return the input of each leaf of an observation, by path."""
    return {path: OBS if path == PLAIN else path for path in leaf_spaces(space)}


def action_names(space: gym.Space) -> dict[str, str]:
    """Return the output of each leaf of an action, by path."""
    leaves = leaf_spaces(space, "action space")
    return {path: ACTION if path == PLAIN else f"{ACTION}/{path}" for path in leaves}


def check_names(inputs: Collection[str], outputs: Collection[str]) -> None:
    """Refuse names that stand for two things.

    Raises:
        ConfigError: naming the leaf that is called as something else is.
    """
    for name in inputs:
        if list(inputs).count(name) > 1 or name in outputs:
            raise ConfigError(
                f"the observation's leaf {name!r} has the name of another input or output of the "
                "exported graph; allowed: any other key"
            )
