"""What the sections of a spec share."""

from __future__ import annotations

import math
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from analysis.home import expanded

MAX_TRIALS = 100_000
"""Trials of a sweep: Tune keeps some 14 kB of each."""
MAX_SEEDS = 1000
MAX_NAME = 200
"""Characters of a sweep's name, which names a folder."""

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(gt=0, le=MAX_TRIALS)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def _has_home(path: str) -> str:
    expanded(path)  # an error here names the line, one later does not
    return path


FilePath = Annotated[str, Field(min_length=1), AfterValidator(_has_home)]
"""A path as it was written, or a URI; `~user` must be a user here."""


class Section(BaseModel):
    """Unknown keys are errors, in assignments too."""

    model_config = ConfigDict(
        extra="forbid",
        validate_assignment=True,
        validate_default=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # they are what editors show (`spec.json_schema`)
    )


def shown_count(count: int) -> str:
    """Return a whole number for a message, also one of thousands of digits."""
    return f"{count:,}" if count < 10**12 else f"about 10^{int(math.log10(count))}"


def sections_of(union: Any) -> dict[str, type[Section]]:
    """Return the sections of a union whose members have a `Tag` each, by that tag."""
    members = (get_args(member) for member in get_args(get_args(union)[0]))
    return {tag.tag: section for section, tag in members}


def tag_of(value: Any) -> str:
    """Return the `algorithm` of a `search` or `scheduler` section, as given or as parsed."""
    if isinstance(value, dict):
        return str(value.get("algorithm", ""))
    return str(getattr(value, "algorithm", value))
