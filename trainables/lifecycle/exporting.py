"""Export as a feature: a policy as a graph that runs without this project."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.checkpoint import CheckpointError
from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.export.graph_verification import NUM_OBSERVATIONS, Recording
from trainables.core.export.onnx_program import OPSETS, export_onnx
from trainables.core.export.torch_program import export_torch_program
from trainables.core.features import Feature
from trainables.core.policy.policy import Policy
from trainables.core.trust import refuse
from trainables.runtime.envs.all_slots import reset_with_infos
from trainables.runtime.envs.make import EnvName, env_name, make_played_slots
from trainables.runtime.envs.trust import environment_doubts
from trainables.runtime.evaluation.agents import SEVERAL_AGENTS
from trainables.runtime.sampling.acting import SlotActor
from trainables.runtime.sampling.row_checks import Place

FORMATS = ("torch", "onnx")

_NUM_SLOTS = 4


def recorded(
    policy: Policy,
    env: EnvName,
    env_config: dict[str, Any] | None = None,
    *,
    num_observations: int = NUM_OBSERVATIONS,
    seed: int = 0,
) -> Recording:
    """Play, with exploration, and keep what the environment shows.

    Args:
        policy: The policy that acts; it is left as it is.
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_observations: How many observations are kept.
        seed: The seed of environments and exploration.

    Raises:
        ConfigError: if the environment cannot be made.
    """
    vector_env = make_played_slots(policy.metadata, env, env_config, _NUM_SLOTS)
    try:
        num_steps = -(-num_observations // _NUM_SLOTS)
        kept_rows = policy.observations.layout.zeros((num_steps, _NUM_SLOTS))
        kept_rewards = np.zeros((num_steps, _NUM_SLOTS), np.float32)
        kept_firsts = np.zeros((num_steps, _NUM_SLOTS), bool)
        root = np.random.SeedSequence(seed)
        actor = SlotActor(policy, _NUM_SLOTS, Place(env, "an export"), root, explore=True)
        obs, _ = reset_with_infos(vector_env, root)
        is_first, is_over = np.ones(_NUM_SLOTS, bool), np.zeros(_NUM_SLOTS, bool)
        rewards, lengths = np.zeros(_NUM_SLOTS), np.zeros(_NUM_SLOTS, np.int64)
        for t in range(num_steps):
            kept_rewards[t], kept_firsts[t] = rewards, is_first
            actor.observe(obs, rewards, is_first, lengths)
            kept_rows[t] = actor.rows
            actions = actor.act(is_over, lengths)
            obs, rewards, terminated, truncated, _ = vector_env.step(actions)
            is_first, is_over = is_over, terminated | truncated
            rewards = np.where(is_first, 0.0, rewards)
            lengths = np.where(is_first, 0, lengths + 1)
    finally:
        vector_env.close()
    return Recording(kept_rows, kept_rewards, kept_firsts, env_name(env) or "environment")


def write_graph(
    policy_folder: Path,
    target: Path,
    format: str,
    *,
    opset: int | None = None,
    trust: Collection[str] = (),
) -> Path:
    """Write `model.pt2` or `policy.onnx` of an exported policy, and the JSON file beside it.

    The graph is compared with the policy on observations from its space, and from its environment
    where that can be made without code that the folder names; a warning says where it cannot. That
    of several agents is left out.

    Args:
        policy_folder: See `Policy.load`.
        target: A folder, made if missing.
        format: One of `FORMATS`.
        opset: The version of ONNX's operators.
        trust: Code that the policy names and that may be imported: connectors, a custom model, the
            environment.

    Returns:
        The file.

    Raises:
        ConfigError: if the policy is damaged, names code that is not trusted or cannot be exported,
            a library is missing, or the graph acts otherwise than the policy.
    """
    if format not in FORMATS:
        raise ConfigError(f"format = {format!r} is unknown; known: {', '.join(FORMATS)}")
    if opset is not None and format != "onnx":
        raise ConfigError(f"opset = {opset} has no effect on the format {format!r}; allowed: None")
    policy = Policy.load(policy_folder, trust=trust)
    recordings = _recordings(policy, trust)
    if format == "onnx":
        return export_onnx(policy, target, opset, recordings)
    return export_torch_program(policy, target, recordings)


def _recordings(policy: Policy, trust: Collection[str]) -> list[Recording]:
    """Return recordings of the policy's environment, if that can be made."""
    env: Any = policy.metadata.get("env")
    if not env or SEVERAL_AGENTS in policy.metadata:
        return []
    try:
        refuse(environment_doubts(policy.metadata), trust, "its policy")
        return [recorded(policy, env, policy.metadata.get("env_config"))]
    except CheckpointError as error:
        why = str(error)
    except Exception as error:  # an environment is anybody's code
        why = f"{type(error).__name__}: {error}"
    warnings.warn(
        f"the exported graph is compared on sampled observations alone, not on those of {env!r}: "
        f"{why}",
        stacklevel=3,
    )
    return []


class Export(Feature):
    """Writes policies as graphs, and in the formats that Tune asks for."""

    def write_model(
        self, policy: Policy, target: Path, onnx: int | None, played: AlgorithmConfig | None
    ) -> Path:
        """Write a policy as one graph, compared with the policy before.

        Args:
            policy: The policy.
            target: A folder, made if missing.
            onnx: The version of ONNX's operators; None: a `torch.export` program.
            played: The config whose environment it is compared in, if that names one, too; None:
                compared on its space alone.

        Returns:
            The file.
        """
        recordings = []
        if played is not None and played.env is not None:
            recordings.append(recorded(policy, played.env, played.env_config_for(training=False)))
        if onnx is not None:
            return export_onnx(policy, target, onnx, recordings)
        return export_torch_program(policy, target, recordings)

    def write_each(
        self, algorithm: Any, export_formats: Collection[str], export_dir: str
    ) -> dict[str, str]:
        """Write each format; of several policies each to a folder of its id.

        Args:
            algorithm: The algorithm that has the policies.
            export_formats: The names of the formats.
            export_dir: The folder.

        Returns:
            What was written, by format.

        Raises:
            ConfigError: for an unknown format.
        """
        exporters: dict[str, Callable[..., Path]] = {
            "checkpoint": algorithm.export_policy_checkpoint,
            "model": algorithm.export_policy_model,
            "onnx": partial(algorithm.export_policy_model, onnx=OPSETS.start),
        }
        unknown = [name for name in export_formats if name not in exporters]
        if unknown:
            raise ConfigError(
                f"export format {unknown[0]!r} is unknown; known: {', '.join(exporters)}"
            )
        if {*algorithm.policies} == {DEFAULT_MODULE_ID}:
            return {name: str(exporters[name](export_dir)) for name in export_formats}
        for name in export_formats:
            for policy_id in algorithm.policies:
                exporters[name](str(Path(export_dir) / policy_id), policy_id=policy_id)
        return dict.fromkeys(export_formats, export_dir)


FEATURE = Export()
