"""The code of a logged policy. MLflow copies this file beside the policy and runs it to load it.

So a model holds no pickle: this file, the parts of `trainables` that it needs, and the policy as
JSON and safetensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel
from mlflow.pyfunc.model import PythonModelContext


class PolicyModel(PythonModel):
    """Observations in, actions for the environment out."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the policy."""
        from trainables.core.policy import Policy

        self.policy = Policy.load(context.artifacts["policy"])

    def predict(
        self, context: Any, model_input: np.ndarray, params: dict[str, Any] | None = None
    ) -> np.ndarray:
        """The actions for a batch of observations.

        Args:
            context: Not used.
            model_input: Raw observations, `[B, *shape]`.
            params: `explore`: whether actions are sampled instead of the most likely ones.

        Returns:
            Actions for the environment, `[B, …]`.
        """
        explore = bool((params or {}).get("explore", False))
        return np.asarray(self.policy.compute_actions(np.asarray(model_input), explore=explore))


set_model(PolicyModel())
