"""The private parts of Ray and Optuna that are used are there, and take what they are given.

An upgrade of either is to fail here, with a list, and not in the middle of somebody's sweep. The
versions are those for which the adapters were written; when they are raised, look at each part.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.internals import tune

ROOT = Path(tune.__file__).resolve().parents[2]
ADAPTERS = ROOT / "experiments" / "internals"
VERSIONS = {"ray": "2.60.0", "optuna": "5.0.0"}

# By class or module: methods and functions, with the parameters that we pass or override.
CALLABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "ray.tune.execution.tune_controller:TuneController": {
        "_wrapped": (),
        "_set_trial_status": ("trial", "status"),
        "_mark_trial_to_checkpoint": ("trial",),
        "_schedule_trial_save": ("trial", "result"),
        "_process_trial_failure": ("trial", "exception"),
        "_on_trial_reset": ("trial", "success"),
        "_update_trial_queue": ("blocking", "timeout"),
        "_remove_actor": ("tracked_actor",),
        "_cleanup_cached_actors": ("force_all",),
        "_schedule_trial_actor": ("trial",),
        "_get_trial_checkpoints": (),
        "save_to_dir": (),
    },
    "ray.tune.callback:CallbackList": {
        "on_trial_complete": ("info",),
        "save_to_dir": ("checkpoint_dir", "session_str"),
    },
    "ray.tune.search:SearchGenerator": {
        "save_to_dir": ("dirpath", "session_str"),
        "restore_from_dir": ("dirpath",),
    },
    "ray.air.execution._internal.actor_manager:RayActorManager": {
        "is_actor_started": ("tracked_actor",),
    },
    "ray.air.execution.resources.placement_group:PlacementGroupResourceManager": {
        "has_resources_ready": ("resource_request",),
    },
    "ray.tune.utils.resource_updater:_ResourceUpdater": {"get_num_cpus": ()},
    "ray.train._internal.checkpoint_manager:_CheckpointManager": {
        "__init__": ("checkpoint_config",),
        "register_checkpoint": ("checkpoint_result",),
    },
    "ray.train._internal.session:_TrainingResult": {"__init__": ("checkpoint", "metrics")},
    "ray.tune.schedulers.async_hyperband:_Bracket": {"cutoff": ("recorded",)},
    "ray.tune.schedulers.pb2:": {
        "_select_config": ("Xraw", "yraw", "current", "newpoint", "bounds", "num_f"),
    },
    "ray.tune.utils:": {"date_str": ()},
    "ray.air._internal.usage:": {"tag_callbacks": ("callbacks",)},
    "ray.tune.tuner:Tuner": {"restore": ("path", "trainable")},
    "ray.tune.impl.tuner_internal:TunerInternal": {"get_run_config": ()},
    "ray._private.node:Node": {
        "start_monitor": (),
        "start_api_server": (),
        "start_log_monitor": (),
        "start_raylet": (),
        "dead_processes": (),
    },
    "ray._private.services:": {
        "get_node_ip_address": (),
        "canonicalize_bootstrap_address": ("addr",),
    },
    "ray._private.utils:": {
        "set_sigterm_handler": ("sigterm_handler",),
        "get_dashboard_dependency_error": (),
    },
    "ray._private.state:": {
        "available_resources_per_node": (),
        "actors": ("actor_state_name",),
    },
    "optuna.storages:BaseStorage": {
        "get_study_system_attrs": ("study_id",),
        "set_study_system_attr": ("study_id", "key", "value"),
    },
    "optuna.trial:Trial": {"__init__": ("study", "trial_id")},
    "optuna.samplers:NSGAIISampler": {"_get_generation_key": ()},
    "optuna.samplers:NSGAIIISampler": {"_get_generation_key": ()},
}

# By class: attributes that its instances have.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "ray.tune.execution.tune_controller:TuneController": (
        "_iteration",
        "_callbacks",
        "_search_alg",
        "_pending_trials",
        "_running_trials",
        "_paused_trials",
        "_live_trials",
        "_resource_updater",
        "_resetting_trials",
        "_stopping_actors",
        "_trial_to_actor",
        "_actor_to_trial",
        "_actor_manager",
        "_actor_cache",
        "_cached_trial_decisions",
        "_storage",
        "_checkpoint_manager",
        "_trials_to_cache",
        "_trial_metadata",
        "_start_time",
        "_session_str",
    ),
    "ray.tune.execution.experiment_state:_ExperimentCheckpointManager": (
        "_storage",
        "_sync_every_n_trial_checkpoints",
    ),
    "ray.tune.callback:CallbackList": ("_callbacks",),
    "ray.air.execution._internal.actor_manager:RayActorManager": ("_resource_manager",),
    "ray.train._internal.checkpoint_manager:_CheckpointManager": (
        "_checkpoint_results",
        "_latest_checkpoint_result",
    ),
    "ray._private.node:Node": ("_ray_params", "all_processes", "gcs_address"),
    "ray.tune.tuner:Tuner": ("_local_tuner",),
    "ray.tune.impl.tuner_internal:TunerInternal": ("_experiment_analysis", "_tune_config"),
    "ray.tune.result_grid:ResultGrid": ("_experiment_analysis",),
    "ray.tune.search:SearchGenerator": ("_total_samples", "_finished", "_experiment"),
    "ray.tune.schedulers:ResourceChangingScheduler": ("_base_scheduler",),
    "ray.tune.schedulers:AsyncHyperBandScheduler": (
        "_metric",
        "_metric_op",
        "_time_attr",
        "_max_t",
        "_reduction_factor",
        "_brackets",
        "_trial_info",
    ),
    "ray.tune.schedulers.async_hyperband:_Bracket": ("_rungs",),
    "ray.tune.schedulers:MedianStoppingRule": ("_metric", "_time_attr", "_stopped_trials"),
    "ray.tune:Trainable": ("_iteration", "_time_total", "_trial_info", "_storage"),
    "optuna.study:Study": ("_storage", "_study_id"),
    "optuna.trial:Trial": ("study", "storage", "_trial_id"),
    "optuna.trial:FrozenTrial": ("_trial_id",),
}
# Modules that are private, or not documented, of which a name is imported.
MODULES = {
    "ray.tune.execution.tune_controller": ("TuneController", "Failed to restore the run state"),
    "ray.tune.result": ("EXPR_RESULT_FILE", "TRIAL_INFO"),
    "ray.train._internal.storage": ("from ray.tune.utils import date_str",),
    "ray.tune.utils.serialization": ("TuneFunctionEncoder",),
    "ray.tune.utils.util": ("SafeFallbackEncoder",),
    "ray.train._internal.checkpoint_manager": ("_CheckpointManager",),
    "ray.train._internal.session": ("_TrainingResult",),
    "ray.tune.schedulers.pb2": ("_select_config",),
    "ray._private.worker": ("_global_node",),
}
# By package that does not import `experiments`: the private modules that it imports.
ELSEWHERE: dict[str, set[str]] = {
    "analysis": set(),
    "search_spaces": set(),
    "trainables": {"ray._private", "ray.train._internal.session"},
    "tunescape": {"ray._private"},
}


def test_the_parts_are_those_of_the_versions_that_are_pinned() -> None:
    """Raise the versions here only when the lists below hold for them: the other tests say so."""
    pins = dict(
        re.findall(r"^([a-z]+)(?:\[\w+\])?==(\S+)", (ROOT / "constraints.txt").read_text(), re.M)
    )
    assert {name: pins[name] for name in VERSIONS} == VERSIONS


def test_every_private_part_is_still_there() -> None:
    assert list(missing()) == []


def test_a_part_that_is_gone_is_named() -> None:
    gone = {"ray.tune:Trainable": ("_iteration", "_no_such")}
    assert list(missing_attributes(gone)) == ["ray.tune:Trainable has no attribute _no_such"]
    renamed = {"optuna.trial:Trial": {"__init__": ("study", "number"), "_no_such": ()}}
    assert list(missing_callables(renamed)) == [
        "optuna.trial:Trial.__init__ takes no number: (self, study, trial_id)",
        "optuna.trial:Trial has no _no_such",
    ]


def missing() -> Iterator[str]:
    yield from missing_callables(CALLABLES)
    yield from missing_attributes(ATTRIBUTES)
    for module, names in MODULES.items():
        source = inspect.getsource(importlib.import_module(module))
        yield from (f"{module} has no {name}" for name in names if name not in source)


def missing_callables(wanted: dict[str, dict[str, tuple[str, ...]]]) -> Iterator[str]:
    for owner, functions in wanted.items():
        for name, parameters in functions.items():
            function = getattr(found(owner), name, None)
            if function is None:
                yield f"{owner} has no {name}"
                continue
            takes = list(inspect.signature(function).parameters)
            for parameter in parameters:
                if parameter not in takes:
                    yield f"{owner}.{name} takes no {parameter}: ({', '.join(takes)})"


def missing_attributes(wanted: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """What is neither an attribute of the class nor set on `self` in its source."""
    for owner, names in wanted.items():
        bases = [base for base in found(owner).__mro__ if base.__module__ != "builtins"]
        source = "\n".join(inspect.getsource(base) for base in bases if is_theirs(base))
        for name in names:
            is_set = re.search(rf"self\.{name}\b[^=\n]*=[^=]", source)
            if not is_set and not hasattr(found(owner), name):
                yield f"{owner} has no attribute {name}"


def is_theirs(base: type) -> bool:
    return base.__module__.partition(".")[0] in ("ray", "optuna")


def found(owner: str) -> Any:
    module, _, name = owner.partition(":")
    imported = importlib.import_module(module)
    return getattr(imported, name) if name else imported


# -- and nobody else uses them ---------------------------------------------------------------------


def test_private_parts_are_accessed_in_the_adapters_only() -> None:
    files = [
        path for path in (ROOT / "experiments").rglob("*.py") if "benchmarks" not in path.parts
    ]
    outside = [path for path in files if path.parent != ADAPTERS]
    assert len(outside) > 100 and len(files) - len(outside) == 6
    assert [access for path in outside for access in accesses(path.read_text(), path.name)] == []


def test_packages_below_import_only_the_private_modules_that_are_listed() -> None:
    imported: dict[str, set[str]] = {package: set() for package in ELSEWHERE}
    for package, found in imported.items():
        for text in (path.read_text() for path in (ROOT / package).rglob("*.py")):
            if re.search(r"\b(?:from|import) (?:ray|optuna)\b", text):  # others need no parser
                found.update(module for _, module in private_imports(ast.parse(text)))
    assert imported == ELSEWHERE


def test_an_access_elsewhere_is_found() -> None:
    planted = (
        "from ray.train._internal.session import x\nimport ray._private.worker as worker\n"
        "controller._iteration\nself._iteration\ngetattr(controller, '_iteration', 0)\n"
    )
    assert list(accesses(planted, "planted.py")) == [
        "planted.py:1 imports ray.train._internal.session",
        "planted.py:2 imports ray._private.worker",
        "planted.py:3 controller._iteration",
        "planted.py:5 getattr(controller, '_iteration', 0)",
    ]


def test_every_part_in_the_lists_is_used() -> None:
    source = "".join(path.read_text() for path in ADAPTERS.glob("*.py"))
    unused = [name for name in private_names() if not re.search(rf"\b{name}\b", source)]
    assert unused == []


def accesses(source: str, file: str) -> Iterator[str]:
    names, tree = private_names(), ast.parse(source)
    yield from (f"{file}:{line} imports {module}" for line, module in private_imports(tree))
    for node in runtime_nodes(tree):
        if is_access(node, names):
            yield f"{file}:{node.lineno} {ast.unparse(node)}"


def private_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in runtime_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            modules = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        yield from ((node.lineno, module) for module in modules if is_private(module))


def is_access(node: ast.AST, names: set[str]) -> bool:
    """Whether a node is somebody else's attribute of one of the names, or asks for it."""
    if isinstance(node, ast.Attribute):
        return node.attr in names and ast.unparse(node.value) not in ("self", "cls")
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"):
        return False
    return any(isinstance(name, ast.Constant) and name.value in names for name in node.args)


def is_private(module: str) -> bool:
    library, *parts = module.split(".")
    named_so = library in ("ray", "optuna") and any(part.startswith("_") for part in parts)
    return named_so or module in MODULES


def private_names() -> set[str]:
    tables: list[Any] = [*CALLABLES.values(), *ATTRIBUTES.values()]
    return {name for names in tables for name in names if re.match("_[a-z]", name)}


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those below `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from runtime_nodes(node)
