"""How ranks in processes of their own find each other."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import pytest
import torch.distributed as dist

from trainables.runtime.actors.own_ray import LOOPBACK
from trainables.runtime.learners.process_ranks import (
    CPUS,
    ProcessRanks,
    find_store,
    open_store,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="has 127.0.0.2 and lo")


def test_ranks_meet_at_an_address_that_others_cannot_reach() -> None:
    store = open_store(LOOPBACK, 2)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", store.port), timeout=5)
    store.set("colour", "green")
    assert find_store(LOOPBACK, store.port, 2).get("colour") == b"green"


@pytest.mark.parametrize("own", [None, "eth7"])
def test_the_next_group_may_talk_over_another_interface(
    own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if own is None:
        monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    else:
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", own)
    seen: list[Any] = []
    monkeypatch.setattr(
        dist, "init_process_group", lambda *_, **__: seen.append(os.environ["GLOO_SOCKET_IFNAME"])
    )
    ProcessRanks(0, 1, dist.HashStore(), CPUS, one_node=True)
    assert seen == [own or "lo"]
    assert os.environ.get("GLOO_SOCKET_IFNAME") == own
