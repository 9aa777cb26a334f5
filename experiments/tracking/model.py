"""A policy as an MLflow model: with its signature, without a pickle, and registered on request.

The folder of a model holds the policy and the code that it needs, so that it is served where
neither this project nor Ray is installed: `mlflow models serve -m FOLDER --env-manager local`.

>>> model = mlflow.pyfunc.load_model("models:/cartpole/1")  # doctest: +SKIP
>>> actions = model.predict(observations)  # doctest: +SKIP
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.names import ENV_STEPS
from analysis.numbers import cell
from analysis.results.mlflow_tags import NOTE_TAG
from analysis.results.rows import read_json
from experiments.tracking.names import is_number
from experiments.tracking.store import be_quiet

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.models import Model, ModelSignature
    from mlflow.tracking import MlflowClient
    from mlflow.types import Schema

    from trainables.core.policy.policy import Policy

MODEL_NAME = "policy"
_CODE = Path(__file__).with_name("mlflow_policy.py")
# What `trainables.core` imports. Listed, because finding it out takes MLflow many seconds.
_REQUIREMENTS = ("mlflow", "torch", "gymnasium", "numpy", "safetensors")


def load_policy(folder: str) -> Policy:
    """Load an exported policy.

    Raises:
        ValueError: It is none of ours, or damaged.
    """
    from trainables.core.policy.policy import Policy

    return Policy.load(folder)


def export_mlflow(policy_folder: Path, target: Path) -> Path:
    """Write an exported policy as the folder of an MLflow model.

    `mlflow models predict -m TARGET -i TARGET/serving_input_example.json --env-manager local` and
    `mlflow.pyfunc.load_model(TARGET)` run it; see `trainables.core.export.serving` for what goes in
    and comes out. What `export.json` says of the policy is the model's metadata.

    Args:
        policy_folder: An exported policy.
        target: The folder to make; it must not exist, and its parent must.

    Returns:
        `target`.

    Raises:
        CheckpointError: `policy_folder` holds no policy, or a damaged one.
    """
    from mlflow.models import Model

    policy = load_policy(str(policy_folder))
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as work:
        description = Model(metadata=provenance(policy_folder))
        build_model(policy, policy_folder, Path(work), description).rename(target)
    return target


def provenance(policy_folder: Path) -> dict[str, Any]:
    """Return what an exported policy says of where it comes from; empty if it says nothing."""
    said = read_json(policy_folder / "export.json")
    return said if isinstance(said, dict) else {}


def log_model(
    client: MlflowClient,
    policy: Policy,
    folder: Path,
    *,
    experiment_id: str,
    run_ids: Sequence[str],
    tags: Mapping[str, str],
    name: str = MODEL_NAME,
) -> LoggedModel:
    """Log an exported policy as a model of a run.

    Args:
        client: MLflow's client.
        policy: What `folder` holds.
        folder: An exported policy.
        experiment_id: The experiment of the run.
        run_ids: The runs that show the model as their output. The first is the one that the
            policy comes from; the model gets its parameters.
        tags: The tags of the model.
        name: Its name: of several policies the id.

    Returns:
        The model; its URI is `models:/<model_id>`.
    """
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    said = provenance(folder)
    model = client.create_logged_model(
        experiment_id,
        name=name,
        source_run_id=run_ids[0],
        tags=dict(tags),
        params=client.get_run(run_ids[0]).data.params,
        model_type="policy",
    )
    try:
        for run_id in run_ids:
            client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
        description = Model(
            artifact_path=model.artifact_location,
            model_uuid=model.model_id,
            model_id=model.model_id,
            run_id=run_ids[0],
            metadata=said,
        )
        with tempfile.TemporaryDirectory(prefix="tunescape-model-") as work:
            built = build_model(policy, folder, Path(work), description)
            client.log_model_artifacts(model.model_id, str(built))
        client.set_logged_model_tags(model.model_id, {NOTE_TAG: model_note(said, model.model_uri)})
        if is_number(said.get("value")):  # what it was chosen for, shown with the model
            client.log_metric(
                run_ids[-1],
                said["metric"],
                said["value"],
                step=int(said.get(ENV_STEPS) or 0),
                model_id=model.model_id,
            )
        client.finalize_logged_model(model.model_id, "READY")
    except Exception:
        client.finalize_logged_model(model.model_id, "FAILED")
        raise
    return model


def model_note(said: Mapping[str, Any], uri: str) -> str:
    """Describe a model: where it comes from, and how it is used.

    Args:
        said: What `provenance` returned.
        uri: The URI of the model.
    """
    parts = []
    if said:
        value = f"`{said.get('metric')}` {cell(said.get('value'))}"
        steps = f"after {cell(said.get(ENV_STEPS))} env steps"
        parts.append(
            f"Trial `{said.get('trial_id')}` of sweep **{said.get('sweep')}**: {value} {steps}."
        )
    parts.append("Observations in, actions out; `params: {explore: true}` samples actions.")
    parts.append(f"```bash\nmlflow models serve -m {uri} --env-manager local\n```")
    return "\n\n".join(parts)


def register_model(
    client: MlflowClient, model: LoggedModel, name: str, said: Mapping[str, Any]
) -> str:
    """Register a logged model as the next version of `name`; return the version.

    Args:
        client: MLflow's client.
        model: What `log_model` returned.
        name: The name of the registered model.
        said: What `provenance` returned; it is described with the version.
    """
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    # A database looks the model's URI up in the tracking URI of the process, which is not ours to
    # set; a server accepts nothing but the model's URI.
    is_server = client.tracking_uri.startswith("http")
    source = model.model_uri if is_server else model.artifact_location
    version = client.create_model_version(
        name,
        source=source,
        run_id=model.source_run_id,
        model_id=model.model_id,
    )
    note = model_note(said, f"models:/{name}/{version.version}")
    client.update_model_version(name, version.version, description=note)
    return str(version.version)


def build_model(policy: Policy, folder: Path, work: Path, description: Model) -> Path:
    """Make the folder of a model: `MLmodel`, code, requirements and the policy.

    Args:
        policy: What `folder` holds.
        folder: An exported policy.
        work: An empty folder.
        description: What goes into `MLmodel`.

    Returns:
        The model's folder, below `work`.
    """
    from trainables import core  # by its module: a project's own package may have the other name

    # `trainables.core` stands alone: a model needs neither this package to be installed nor Ray.
    source = Path(core.__file__).parents[1]
    code = work / "code" / "trainables"
    shutil.copytree(source / "core", code / "core", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(source / "__init__.py", code / "__init__.py")
    be_quiet()
    from mlflow import pyfunc

    logging.getLogger("mlflow.pyfunc").setLevel(logging.WARNING)
    signature, example = signature_of(policy)
    target = work / "model"
    with _unchecked_requirements():
        pyfunc.save_model(
            target,
            python_model=_CODE,
            artifacts={"policy": str(folder)},
            code_paths=[str(code)],
            signature=signature,
            input_example=example,
            pip_requirements=_requirements(),
            mlflow_model=description,
        )
    _forget_this_machine(description)
    description.save(target / "MLmodel")
    for cache in target.rglob("__pycache__"):
        shutil.rmtree(cache)
    return target


def _forget_this_machine(description: Model) -> None:
    """Make paths relative to the model's folder, which alone are read when it is loaded."""
    flavor = description.flavors["python_function"]
    flavor["model_code_path"] = _CODE.name
    for artifact in flavor["artifacts"].values():
        artifact["uri"] = artifact["path"]


def signature_of(policy: Policy) -> tuple[ModelSignature, Any]:
    """Return a policy's signature, with a batch of one observation as an example.

    Inputs are observations `[B, *shape]`, outputs actions `[B, …]`, both of the type that the
    environment's spaces have, by name where a space is nested or the policy has a memory (see
    `trainables.core.export.serving`); the parameter `explore` samples actions.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import DataType, ParamSchema, ParamSpec

    from trainables.core.export.serving import example_inputs, serve

    example = example_inputs(policy)
    signature = ModelSignature(
        inputs=_schema(example),
        outputs=_schema(serve(policy, example)),
        params=ParamSchema([ParamSpec("explore", DataType.boolean, False)]),
    )
    return signature, example


def _schema(tensors: Any) -> Schema:
    """Of one array, or of arrays by name; the first axis is the batch."""
    from mlflow.types import Schema, TensorSpec

    named = tensors if isinstance(tensors, dict) else {None: tensors}
    return Schema(
        [TensorSpec(part.dtype, (-1, *part.shape[1:]), name) for name, part in named.items()]
    )


def _requirements() -> list[str]:
    """The installed versions; of a local build, such as torch's for the CPU, the public one."""
    found: list[Any] = [(name, metadata.version(name).partition("+")[0]) for name in _REQUIREMENTS]
    return [f"{name}=={version}" for name, version in found]


@contextmanager
def _unchecked_requirements() -> Iterator[None]:
    """Keep MLflow from comparing our requirements with the installed versions, which they are.

    It would list the files of every installed package, which takes a second.
    """
    from mlflow.utils import environment

    check = "warn_dependency_requirement_mismatches"
    theirs = getattr(environment, check)
    setattr(environment, check, lambda requirements: None)
    try:
        yield
    finally:
        setattr(environment, check, theirs)
