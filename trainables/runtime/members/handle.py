"""`MemberHandle`: what calls a member of a `Host` in another process, as if it were an actor."""

from __future__ import annotations

from typing import Any


class MemberHandle:
    """Passes `handle.method.remote(…)` on to a member of a host.

    Args:
        host: The handle of the host's actor.
        name: Of the member there.
        made: Resolves once the member is made.
    """

    def __init__(self, host: Any, name: str, made: Any):
        self.host, self.name, self.made = host, name, made

    @classmethod
    def make(
        cls, host: Any, name: str, kind: Any, arguments: dict[str, Any], *peers: Any
    ) -> MemberHandle:
        """Have a member made; see `Host.make`."""
        return cls(host, name, host.make.remote(name, kind, arguments, *peers))

    def end(self) -> Any:
        """Have the member stopped and forgotten."""
        return self.host.end.remote(self.name, self.made)

    def __getattr__(self, method: str) -> _Method:
        # Copying and pickling ask for others of that form, and must not get a call.
        if method.startswith("__") and method not in ("__ray_ready__", "__ray_terminate__"):
            raise AttributeError(method)
        return _Method(self, method)


class _Method:
    def __init__(self, handle: MemberHandle, method: str):
        self._handle, self._method = handle, method

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        handle = self._handle
        if self._method == "__ray_ready__":
            return handle.made
        if self._method == "__ray_terminate__":
            return handle.end()
        # A host makes several calls at a time: this one is to come after the member is made.
        return handle.host.call.remote(handle.name, self._method, args, kwargs, handle.made)
