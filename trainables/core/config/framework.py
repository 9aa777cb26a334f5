"""Settings of how PyTorch computes."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.core.config.reporting import ReportingSettings
from trainables.core.config.resolved import CompileOptions
from trainables.core.config.settings import setting
from trainables.core.errors import ConfigError

_COMPILER = "a compiler that would be started"


@dataclass(kw_only=True)
class FrameworkSettings(ReportingSettings):
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
        "compile what acts in env runners and evaluation with torch.compile (needs a C++ compiler)",
        risk=_COMPILER,
    )
    torch_compile_worker_dynamo_backend: str = setting(
        "inductor", "framework", "backend of torch.compile for what acts", risk=_COMPILER
    )
    torch_compile_worker_dynamo_mode: str | None = setting(
        None, "framework", "mode of torch.compile for what acts", risk=_COMPILER
    )

    def acting_compile_options(self, has_memory: bool) -> CompileOptions | None:
        """Return how what acts is compiled; None: it is not.

        Raises:
            ConfigError: if it is asked of networks with a memory.
        """
        if not self.torch_compile_worker:
            return None
        if has_memory:
            raise ConfigError(
                "torch_compile_worker = True is not possible with a memory (model): it looks where "
                "episodes begin, which no compiled program can, and its pieces take longer"
            )
        return CompileOptions(
            self.torch_compile_worker_dynamo_backend, self.torch_compile_worker_dynamo_mode
        )

    def compile_options(self, has_memory: bool) -> CompileOptions | None:
        """Return how losses are compiled; None: they are not.

        Raises:
            ConfigError: if it is asked of networks with a memory.
        """
        if not self.torch_compile_learner:
            return None
        if has_memory:
            raise ConfigError(
                "torch_compile_learner = True is not possible with a memory (model): its sequences "
                "are cut where episodes end, so every batch would be another program"
            )
        return CompileOptions(
            self.torch_compile_learner_dynamo_backend, self.torch_compile_learner_dynamo_mode
        )
