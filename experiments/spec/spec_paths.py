"""Files that a spec names: the same ones when the sweep is resumed from another folder."""

from __future__ import annotations

from experiments.spec.paths import absolute_location, absolute_tracking_uri
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import LearningSection, OptunaSection


def settle_paths(spec: SweepSpec) -> None:
    """Name databases, journals and folders by their absolute paths, in the spec itself.

    A `${env:…}` that gave a local path is not kept as a reference: it holds no password, and would
    be read anew, relative to wherever the sweep is resumed.
    """
    spec.mlflow.tracking_uri = _settled(spec, "mlflow.tracking_uri", spec.mlflow.tracking_uri)
    search = spec.search
    if isinstance(search, OptunaSection) and search.study_storage:
        where = absolute_location(search.study_storage)
        _forget_reference(spec, "search.study_storage", search.study_storage, where)
        search.study_storage = where
    if isinstance(search, LearningSection):
        for number, source in enumerate(search.warm_start):
            key = f"search.warm_start.{number}.tracking_uri"
            source.tracking_uri = _settled(spec, key, source.tracking_uri)
            if source.folder is not None:
                source.folder = absolute_location(source.folder)


def _settled(spec: SweepSpec, key: str, uri: str | None) -> str | None:
    if not uri:
        return uri
    settled = absolute_tracking_uri(uri)
    _forget_reference(spec, key, uri, settled)
    return settled


def _forget_reference(spec: SweepSpec, key: str, given: str, settled: str) -> None:
    if given != settled:
        spec._references.pop(key, None)
