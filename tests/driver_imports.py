"""What the driver of a sweep imports, all at once: for `forked_drivers`."""

# ruff: noqa: F401
import matplotlib.backends.backend_agg
import matplotlib.pyplot
import mlflow.store.tracking.sqlalchemy_store
import mlflow.tracking
import ray.tune
import tensorboardX
import torch

from analysis import report
from experiments.commands.results import summary
from experiments.durability import keeper
from experiments.monitor import progress
from experiments.running import runner, tuner
from experiments.tracking import logger
from trainables import ppo
