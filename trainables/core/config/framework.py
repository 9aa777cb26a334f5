"""Settings of how PyTorch computes."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.core.config.estimation import EstimationSettings
from trainables.core.config.resolved import CompileOptions
from trainables.core.config.settings import setting
from trainables.core.errors import ConfigError

_COMPILER = "a compiler that would be started"


@dataclass(kw_only=True)
class FrameworkSettings(EstimationSettings):
    """Settings of how PyTorch computes."""

    torch_compile_learner: bool = setting(
        False,
        "framework",
        "compile the loss with torch.compile (needs a C++ compiler)",
        risk=_COMPILER,
    )
    torch_compile_learner_dynamo_backend: str = setting(
        "inductor", "framework", "backend of torch.compile", risk=_COMPILER
    )
    torch_compile_learner_dynamo_mode: str | None = setting(
        None, "framework", "mode of torch.compile, e.g. 'max-autotune'", risk=_COMPILER
    )

    torch_compile_worker: bool = setting(
        False,
        "framework",
        "compile acting in env runners and evaluation with torch.compile (needs a C++ compiler)",
        risk=_COMPILER,
    )
    torch_compile_worker_dynamo_backend: str = setting(
        "inductor", "framework", "backend of torch.compile for acting", risk=_COMPILER
    )
    torch_compile_worker_dynamo_mode: str | None = setting(
        None, "framework", "mode of torch.compile for acting", risk=_COMPILER
    )

    def acting_compile_options(self, has_memory: bool) -> CompileOptions | None:
        """Return how what acts is compiled; None: it is not.

        Raises:
            ConfigError: if it is asked of networks with a memory.
        """
        return self._compile_options(
            "torch_compile_worker",
            has_memory,
            "it looks where episodes begin, which no compiled program can, and its pieces take "
            "longer",
        )

    def compile_options(self, has_memory: bool) -> CompileOptions | None:
        """Return how losses are compiled; None: they are not.

        Raises:
            ConfigError: if it is asked of networks with a memory.
        """
        return self._compile_options(
            "torch_compile_learner",
            has_memory,
            "its sequences are cut where episodes end, so every batch would be another program",
        )

    def _compile_options(
        self, setting_name: str, has_memory: bool, why_without: str
    ) -> CompileOptions | None:
        """Return what a setting and its `_dynamo_backend` and `_dynamo_mode` say together."""
        if not getattr(self, setting_name):
            return None
        if has_memory:
            raise ConfigError(
                f"{setting_name} = True is not possible with a memory (model): {why_without}"
            )
        backend, mode = (getattr(self, f"{setting_name}_dynamo_{n}") for n in ("backend", "mode"))
        return CompileOptions(backend, mode)
