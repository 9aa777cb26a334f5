"""What the sections of a spec share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

ENV_STEPS = "num_env_steps_sampled_lifetime"

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Section(BaseModel):
    """Unknown keys are errors, in assignments too."""

    model_config = ConfigDict(
        extra="forbid",
        validate_assignment=True,
        validate_default=True,
        use_attribute_docstrings=True,  # they are what editors show (`experiments.json_schema`)
    )


def tag_of(value: Any) -> str:
    """The `algorithm` of a `search` or `scheduler` section, as given or as parsed."""
    if isinstance(value, dict):
        return str(value.get("algorithm", ""))
    return str(getattr(value, "algorithm", value))
