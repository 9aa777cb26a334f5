"""Fragments that were on a node that has died. Without Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ObjectLostError, OwnerDiedError

from trainables.runtime.actors.group import Reply
from trainables.runtime.learners import group as learner_group
from trainables.runtime.learners.group import DataLost, LocalLearnerGroup, fetched
from trainables.runtime.learners.remote_group import LearnersLost, RemoteLearnerGroup


class Reference:
    def __init__(self, error: type[ObjectLostError] | None = None):
        self.error = error


def get(reference: Reference) -> str:
    if reference.error is not None:
        raise reference.error("00" * 28, None, "")
    return "there"


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_group, "ray", SimpleNamespace(ObjectRef=Reference, get=get))


def test_what_is_lost_is_left_out() -> None:
    lost = [Reference(ObjectLostError), Reference(OwnerDiedError)]
    assert fetched([Reference(), *lost, "here"]) == ["there", "here"]
    with pytest.raises(DataLost):
        fetched(lost)


def test_without_data_there_is_no_update() -> None:
    worker: Any = SimpleNamespace()
    group = LocalLearnerGroup(worker)
    group.submit(lambda worker, data: data, [Reference(ObjectLostError)])
    group.submit(lambda worker, data: data, [Reference()])
    assert group.finished() == [["there"]]


def test_learners_one_of_which_has_no_data_are_made_again() -> None:
    group: Any = RemoteLearnerGroup.__new__(RemoteLearnerGroup)
    cause = group._cause([Reply(2, "run", error=DataLost("all is lost"))])
    assert isinstance(cause, LearnersLost) and "all is lost" in str(cause)
