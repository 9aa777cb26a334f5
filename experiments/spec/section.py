"""What the sections of a spec share."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from analysis.home import expanded

MAX_TRIALS = 100_000
"""Trials of a sweep: Tune keeps some 14 kB of each."""
MAX_SEEDS = 1000
MAX_NAME = 200
"""Characters of a sweep's name, which names a folder."""

Kind = TypeVar("Kind")


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):  # which pydantic would take as 1 or 0
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


NUMBER = BeforeValidator(_no_bool)
"""Refuses true and false. It comes last: bounds before a validator stay in the JSON schema."""
PositiveInt = Annotated[int, Field(gt=0), NUMBER]
PositiveFloat = Annotated[float, Field(gt=0), NUMBER]
Probability = Annotated[float, Field(ge=0, le=1), NUMBER]
Count = Annotated[int, Field(gt=0, le=MAX_TRIALS), NUMBER]
Seed = Annotated[int, Field(ge=0, lt=2**32), NUMBER]


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
    """Return the sections of a union that is told apart by their `algorithm`, by that name."""
    return {
        get_args(section.model_fields["algorithm"].annotation)[0]: section
        for section in get_args(get_args(union)[0])
    }


def kind_of(options: Any, base: type[Kind]) -> Kind:
    """Return the kind of a `search` or `scheduler` section, with these options.

    Args:
        options: The section.
        base: The class of all kinds. A kind's class extends it in the module beside it that has
            the algorithm's name, which is imported when it is used.
    """
    package = base.__module__.rpartition(".")[0]
    module = import_module(f"{package}.{options.algorithm}")
    classes: list[Any] = [found for found in vars(module).values() if isinstance(found, type)]
    [kind] = (k for k in classes if issubclass(k, base) and k.__module__ == module.__name__)
    made: Kind = kind(options)
    return made
