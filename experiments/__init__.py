"""How to search: from a spec to a `ray.tune.Tuner`, its results, and the best policy.

Example:
    >>> spec = load_spec("quickstart", ["num_samples=4"])
    >>> results = run(spec)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.lazy_names import offer_names
from tunescape.shared_names import make_room

if TYPE_CHECKING:
    from experiments.errors import PreflightError, SpecError, SweepError
    from experiments.running.batched import batched
    from experiments.running.runner import resume, run
    from experiments.running.tuner import build_tuner
    from experiments.spec.schema import SweepSpec
    from experiments.sweep.load import load_spec, load_specs, make_spec
    from experiments.tracking.callback import MLflowCallback

make_room()
offer_names(globals())
