"""What to search: hyperparameter spaces as data.

`load_space("ppo")` reads a space that ships with the package; `SearchSpace.parse({...})` builds
one from plain data. Nothing here imports ray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.lazy_names import offer_names

if TYPE_CHECKING:
    from search_spaces.documents import SpecError
    from search_spaces.loader import load_preset, load_space, preset_names, space_names
    from search_spaces.space import SearchSpace

offer_names(globals())
