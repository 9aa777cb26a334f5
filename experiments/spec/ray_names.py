"""Addresses of clusters and names of resources, as Ray takes them: checked without Ray."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HOST = r"[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.%a-z]+\]"  # the second is IPv6
_HOST_PORT = re.compile(rf"(?:{_HOST}):(?P<port>[0-9]{{1,5}})")
_RESERVED = ("CPU", "GPU", "memory", "object_store_memory")
_RESERVED_STARTS = ("node:", "bundle_group_")
_MOST = 10**12


def check_address(address: str) -> str:
    """Return the address of a cluster that can be joined.

    Raises:
        ValueError: It is none, or one of Ray's client, which runs elsewhere than its driver.
    """
    if address.startswith("ray://"):
        raise ValueError(
            "the sweep's folder and its tracking are where its driver runs; run the command on a "
            "node of the cluster, e.g. with `ray exec` or `ray job submit`, with --address auto"
        )
    found = _HOST_PORT.fullmatch(address)
    if address != "auto" and (found is None or not 0 < int(found["port"]) < 65536):
        raise ValueError("use auto, or host:port of a running cluster, e.g. 10.0.0.1:6379")
    return address


def check_resources_given(custom: Mapping[str, float]) -> None:
    """See that Ray takes custom resources of a node.

    Raises:
        ValueError: A name is Ray's own, or a quantity no whole number.
    """
    for name, quantity in custom.items():
        if name in _RESERVED:
            raise ValueError(
                f"{name!r} is a resource of Ray's own, no custom one; set resources.num_cpus and "
                "resources.num_gpus"
            )
        if not name.strip() or name.startswith(_RESERVED_STARTS):
            raise ValueError(f"{name!r} cannot be the name of a resource")
        if not (quantity <= _MOST and float(quantity).is_integer()):
            raise ValueError(f"{name} = {quantity:g} must be a whole number, at most {_MOST:.0e}")
