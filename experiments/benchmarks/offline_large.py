"""What learning from 5 GB of images costs: the share of drawing batches, and memory.

Episodes of random images are converted into mapped columns, and cloned by BC with convolutions.
Meanwhile the process's memory is read twice a second: what it has allocated, and what it has mapped
of files, which the system takes back when it needs the room. The columns are deleted in the end.
Figure and numbers are kept in `figures/`::

    python -m experiments.benchmarks.offline_large --gigabytes 5 --folder /path/with/room
"""

from __future__ import annotations

import argparse
import math
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from experiments.benchmarks import curves
from experiments.benchmarks.gather import HERE, Result, console, table, verdict
from trainables import BC, BCConfig
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.data_set import DataSet, load_data_set
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.offline_data import OfflineData
from trainables.runtime.offline.read_options import ReadOptions
from trainables.runtime.replay.experience import Experience

SHARE = 0.1
"""Of an update, that drawing its batch may take."""
ANONYMOUS_MB = 500.0
SPACES = DataSpaces(gym.spaces.Box(0, 255, (84, 84, 4), np.uint8), gym.spaces.Discrete(4))
EPISODE = 200
"""Steps of an episode."""
LABELS = {"update": "an update, with the draw", "draw": "the draw"}
KINDS = {"RssAnon": "allocated", "RssFile": "mapped files"}
COLORS = ("#0072b2", "#d55e00")


def main() -> None:
    """Writes, converts, trains, prints the table, writes `offline_large.json` and draws it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=5.0, help="of observations")
    parser.add_argument("--folder", type=Path, help="where the data lie for a while")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--updates", type=int, default=100, help="updates to measure")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    curves.add_figures(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    memory = Memory()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        with memory.phase("converting"):
            data = load_data_set(RandomImages(args.gigabytes), cache=Path(folder))
        with memory.phase("training"):
            algo = cloning(data, args.batch_size)
            result = train(algo, args.updates)
        algo.stop()
    memory.stop()
    peak = max(value for _, value in memory.samples["RssAnon"])
    view = table(
        f"BC on {args.gigabytes:g} GB of images, {args.batch_size} rows an update", "", "", ""
    )
    share = result["draw_ms"] / result["update_ms"]
    for name in ("update", "draw"):
        shown = f"{result[f'{name}_ms']:.1f}, of CPU {result[f'{name}_cpu_ms']:.1f}"
        view.add_row(f"ms of {LABELS[name]}", shown, "")
    view.add_row("share of the draw", f"{share:.3f}", verdict(share, SHARE, at_most=True))
    allowed = verdict(peak, ANONYMOUS_MB, at_most=True)
    view.add_row("MB of allocated memory, at most", f"{peak:.0f}", allowed)
    for phase, (start, end) in memory.phases.items():
        view.add_row(f"seconds of {phase}", f"{end - start:.0f}", "")
    console.print(view)
    kept = {**result, "samples": memory.samples, "phases": memory.phases}
    settings = {"gigabytes": args.gigabytes, "batch_size": args.batch_size}
    curves.keep((args.out, args.figures), "offline_large", settings, kept)
    draw(memory.samples, memory.phases, args.gigabytes, args.figures / "offline_large.png")


class RandomImages:
    """A source of episodes of random images and actions; see `Source`."""

    name = "random images"

    def __init__(self, gigabytes: float) -> None:
        self.files, self.options = [f"{gigabytes:g} GB"], ReadOptions()
        self._episodes = max(1, int(gigabytes * 1e9 / SPACES.obs_layout.nbytes / EPISODE))

    def digest(self) -> str:
        """What tells its contents."""
        return f"{self._episodes:x}"

    def spaces(self) -> DataSpaces:
        """Of its images and actions."""
        return SPACES

    infer_spaces = spaces

    def agents(self) -> list[set[str]]:
        """One, without a name."""
        return [{""}]

    def of_files(self, numbers: Collection[int]) -> RandomImages:
        """All of it: there are no files."""
        return self

    def episodes(self, spaces: DataSpaces) -> Iterator[Episode]:
        """One after the other."""
        rng, shape = np.random.default_rng(0), (EPISODE + 1, *spaces.obs_layout.shape)
        for number in range(self._episodes):
            yield Episode(
                np.frombuffer(rng.bytes(math.prod(shape)), np.uint8).reshape(shape),
                rng.integers(4, size=EPISODE),
                np.zeros(EPISODE, np.float32),
                terminated=True,
                truncated=False,
                episode_id=str(number),
            )


def cloning(data: DataSet, batch_size: int) -> BC:
    """BC with the usual convolutions for images of 84 x 84, which learns from the data."""

    class Cloning(BC):
        def make_experience(
            self, module_id: str, policy: Policy, seed: np.random.SeedSequence
        ) -> Experience:
            return OfflineData(data, policy, seed)

    config = BCConfig(algo_class=Cloning).environment(
        observation_space=SPACES.observation, action_space=SPACES.action
    )
    config.training(train_batch_size_per_learner=batch_size)
    config.offline_data(input_=data.name, dataset_num_iters_per_learner=10)
    algo: BC = config.build()
    return algo


def train(algo: Any, updates: int) -> Result:
    """Milliseconds of an update and of its draw, after one iteration that does not count."""
    algo.train()
    draws = np.zeros(2)
    for store in algo.experience.values():
        sample = store.sample

        def timed(*args: Any, sample: Any = sample, **kwargs: Any) -> Any:
            start = clocks()
            drawn = sample(*args, **kwargs)
            draws[:] += clocks() - start
            return drawn

        store.sample = timed
    before, start = algo.num_updates, clocks()
    while algo.num_updates - before < updates:
        algo.train()
    made = algo.num_updates - before
    (update_ms, update_cpu_ms), (draw_ms, draw_cpu_ms) = (
        seconds / made * 1e3 for seconds in (clocks() - start, draws)
    )
    return {
        "updates": made,
        "update_ms": update_ms,
        "update_cpu_ms": update_cpu_ms,
        "draw_ms": draw_ms,
        "draw_cpu_ms": draw_cpu_ms,
    }


def clocks() -> np.ndarray:
    """Seconds by the clock, and of this process's CPU."""
    return np.array([time.perf_counter(), time.process_time()])


class Memory:
    """Reads this process's memory beside what it does, until it is stopped.

    Attributes:
        samples: By kind, points of seconds since the start and megabytes.
        phases: When each began and ended, in seconds since the start.
    """

    def __init__(self, every_s: float = 0.5):
        self.samples: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
        self.phases: dict[str, tuple[float, float]] = {}
        self._every_s, self._start = every_s, time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What is done within is called so."""
        start = self._seconds()
        yield
        self.phases[name] = (start, self._seconds())

    def stop(self) -> None:
        """Read no more."""
        self._stop.set()
        self._thread.join()

    def _seconds(self) -> float:
        return round(time.monotonic() - self._start, 2)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
            told = dict(line.split(":", 1) for line in lines)
            for kind, points in self.samples.items():
                points.append([self._seconds(), int(told[kind].split()[0]) * 1024 / 1e6])


def draw(
    samples: dict[str, list[list[float]]],
    phases: dict[str, tuple[float, float]],
    gigabytes: float,
    path: Path,
) -> None:
    """Memory over time, with the phases and what is allowed."""
    title = f"Memory of a process that learns from {gigabytes:g} GB of images"
    with curves.figure(path, title, "MB", x_label="seconds", loc="lower right") as axes:
        for color, (kind, points) in zip(COLORS, samples.items(), strict=True):
            times, values = np.array(points).T
            axes.plot(times, values, color=color, label=KINDS[kind], linewidth=1.4)
        axes.set_ylim(0, 1.25 * max(ANONYMOUS_MB, *(v for _, v in samples["RssAnon"])))
        axes.axhline(ANONYMOUS_MB, color="0.4", linewidth=0.8, linestyle="--")
        axes.annotate(
            f"allowed: {ANONYMOUS_MB:g} MB allocated",
            (1, ANONYMOUS_MB),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize="small",
            color="0.3",
        )
        for name, (start, end) in phases.items():
            axes.axvline(start, color="0.8", linewidth=0.8)
            axes.annotate(
                name,
                ((start + end) / 2, 1.0),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
                fontsize="small",
                color="0.3",
            )


if __name__ == "__main__":
    main()
