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
        from trainables.core.policy.policy import Policy

        self.policy = Policy.load(context.artifacts["policy"])

    # MLflow warns of inputs without a type hint, and takes a hint for the schema, unless it is of
    # an array: what goes in by name is a dict of arrays.
    def predict(
        self,
        context: PythonModelContext | None,
        model_input: np.ndarray,
        params: dict[str, Any] | None = None,
    ) -> np.ndarray | dict[str, np.ndarray]:
        """Return the actions for a batch of observations.

        Args:
            context: Not used.
            model_input: Raw observations `[B, *shape]`; by name where the space is nested or the
                policy has a memory, see `trainables.core.export.serving`.
            params: `explore`: whether actions are sampled instead of the most likely ones.

        Returns:
            Actions for the environment, `[B, …]`; by name, with the state after them.
        """
        from trainables.core.export.serving import serve

        return serve(self.policy, model_input, bool((params or {}).get("explore", False)))


set_model(PolicyModel())
