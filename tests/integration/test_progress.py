"""What a sweep shows while it runs, on a terminal and elsewhere."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from analysis.numbers import large
from experiments.monitor.progress import MAX_ROWS, Progress
from experiments.monitor.progress_budget import Budget
from experiments.monitor.progress_text import LiveOrder, select_rows, varying_settings

METRIC = "episode_return_mean"
STEPS = "num_env_steps_sampled_lifetime"


def _trial(name: str, status: str, value: Any = None, **settings: Any) -> Any:
    result = {
        METRIC: value,
        "training_iteration": 2,
        "num_env_steps_sampled_lifetime": 2000,
        "time_total_s": 65.0,
        "env_steps_per_second": 12345.6,
    }
    return SimpleNamespace(
        trial_id=name,
        status=status,
        experiment_tag="",
        last_result=result if value is not None else {},
        evaluated_params=settings,
        config=settings,
        stopping_criterion={"training_iteration": 2},
        error_file=None,
        run_metadata=SimpleNamespace(error_filename="error.txt"),
        storage=SimpleNamespace(trial_fs_path=f"/runs/sweep/{name}"),
    )


def _progress(*, terminal: bool, mode: str = "max", total: int | None = 4) -> Progress:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=140, color_system=None)
    return Progress(METRIC, mode, total_trials=total, name="quick", console=console, interval_s=0.0)


def _output(progress: Progress) -> str:
    return progress.console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_live_table_shows_the_trials_best_first() -> None:
    progress = _progress(terminal=True)
    trials = [
        _trial("aaa", "TERMINATED", 10.0, lr=1e-3, gamma=0.99),
        _trial("bbb", "RUNNING", 450.25, lr=2e-4, gamma=0.99),
        _trial("ccc", "PENDING", None, lr=3e-4, gamma=0.99),
    ]
    progress.on_step_end(1, trials)
    progress.stop()
    lines = _output(progress).splitlines()
    header = next(line for line in lines if "trials 3/4" in line)
    assert "1 running, 1 finished, 0 pruned, 0 failed" in header
    assert f"best {METRIC} 450.2 (bbb)" in header
    heading = next(line for line in lines if "status" in line)
    assert "lr" in heading
    assert "gamma" not in heading  # the same in all trials
    order = [line.split()[0] for line in lines if line[:3] in ("aaa", "bbb", "ccc")]
    assert order[:3] == ["bbb", "aaa", "ccc"]
    row = next(line for line in lines if line.startswith("bbb")).split()
    assert row == ["bbb", "running", "0.0002", "450.2", "2k", "2", "12.3k", "1:05"]


def test_without_a_terminal_there_is_a_line_per_event() -> None:
    progress = _progress(terminal=False)
    first = _trial("aaa", "RUNNING", None, lr=1e-3)
    progress.on_trial_start(1, [first], first)
    first.last_result = _trial("", "", 12.5).last_result
    progress.on_step_end(2, [first])
    progress.on_trial_complete(3, [first], first)
    pruned = _trial("bbb", "TERMINATED", 3.0)
    pruned.last_result["training_iteration"] = 1
    progress.on_trial_complete(4, [first, pruned], pruned)
    progress.on_experiment_end([first, pruned])
    lines = [line.split("] ", 1)[1].rstrip() for line in _output(progress).splitlines()]
    assert lines == [
        "trial aaa started  lr=0.001",
        f"trial aaa finished  {METRIC}=12.5  env steps=2,000  iteration=2  best so far",
        f"trial bbb pruned  {METRIC}=3  env steps=2,000  iteration=1",
        f"quick  trials 2/4: 0 running, 1 finished, 1 pruned, 0 failed  best {METRIC} 12.5 (aaa)"
        "  3/8 iterations  0:00",
    ]
    assert "\x1b" not in _output(progress)


def test_trials_that_share_processes_say_which_one() -> None:
    lines, table, brief = (_progress(terminal=terminal) for terminal in (False, True, True))
    table.names_hosts = True  # as -v asks for
    trials = [_trial("aaa", "TERMINATED", 10.0), _trial("bbb", "TERMINATED", 9.0)]
    for host, trial in enumerate(trials):
        trial.last_result["host"] = host
        lines.on_trial_complete(1, trials, trial)
    ends = [line.split("iteration=2", 1)[1].split() for line in _output(lines).splitlines()]
    assert ends == [["host=0", "best", "so", "far"], ["host=1"]]
    for shown in (table, brief):
        shown.on_step_end(1, trials)
        shown.stop()
    assert "host" not in _output(brief)
    last = [line.split()[-1] for line in _output(table).splitlines() if line[:3] in ("aaa", "bbb")]
    assert last[:2] == ["0", "1"]


def test_trials_that_were_cut_off_are_called_interrupted() -> None:
    """Tune ends them without a word: they are no longer running, and not pruned either."""
    progress, live = _progress(terminal=False), _progress(terminal=True)
    trials = [_trial("aaa", "RUNNING", 5.0), _trial("bbb", "RUNNING"), _trial("ccc", "RUNNING", 1)]
    for trial in trials:
        trial.stopping_criterion = {"training_iteration": 9}
        progress.on_trial_start(1, trials, trial)
    trials[2].last_result["done"] = True
    progress.on_trial_complete(2, trials, trials[2])
    for trial in trials:
        trial.status = "TERMINATED"
    progress.on_experiment_end(trials)
    assert "0 running, 0 finished, 1 pruned, 0 failed, 2 interrupted" in _output(progress)
    live.on_experiment_end(trials)
    row = next(line for line in _output(live).splitlines() if line.startswith("aaa"))
    assert "interrupted" in row


@pytest.mark.parametrize("terminal", [True, False])
def test_a_failure_is_one_line_with_cause_and_place(terminal: bool, tmp_path: Path) -> None:
    progress = _progress(terminal=terminal)
    trial = _trial("aaa", "ERROR")
    trial.error_file = str(tmp_path / "error.txt")
    Path(trial.error_file).write_text(
        "Failure # 1 (occurred at 2026-01-01)\nray.train(): \n  File x, line 1, in step\n"
        "experiments.errors.ConfigError: lr must be > 0, got -1.\nNearest: lr_schedule\n"
    )
    progress.on_trial_error(1, [trial], trial)
    progress.on_step_end(2, [trial])
    progress.stop()
    said = [line for line in _output(progress).replace("\n", " ").split("[") if "failed:" in line]
    assert len(said) == 1
    assert "failed: lr must be > 0, got -1." in said[0]
    assert "/runs/sweep/aaa/error.txt" in " ".join(said[0].split())


def test_a_status_line_comes_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = _progress(terminal=False, total=None)
    trial = _trial("aaa", "RUNNING", 1.0)
    progress.setup(total_num_samples=9)
    progress.on_step_end(1, [trial])
    assert _output(progress) == ""
    progress._last_line -= 31.0
    iteration, since = progress._results["aaa"]
    progress._results["aaa"] = iteration, since - 95.0  # a long iteration: no result comes
    progress.on_step_end(2, [trial])
    progress.on_step_end(3, [trial])
    assert _output(progress).count("trials 1/9: 1 running") == 1
    assert "running: aaa in iteration 3 for 1:35\n" in _output(progress)


def test_the_budget_counts_seeds_and_what_early_stopping_saves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("experiments.monitor.progress_budget.time.monotonic", lambda: now)

    def trial(status: str, steps: int) -> Any:
        made = _trial("a", status, 1.0)
        made.stopping_criterion = {STEPS: 1000, "training_iteration": 50}
        made.last_result[STEPS] = steps
        return made

    budget = Budget(seeds=5)
    budget.update([trial("TERMINATED", 1000)], 10)  # of a session before this one
    now = 100.0
    trials = [trial("TERMINATED", 1000), trial("TERMINATED", 200), trial("RUNNING", 500)]
    for now in range(100, 121):  # its pace is measured from its first result on
        trials[-1].last_result[STEPS] = 10 * (now - 70)
        budget.update(trials, 10)
    assert (budget.used, budget.total, budget.unit) == (8500, 50_000, "env steps")
    # 5 x 10 steps a second. To come: 100 of the running one, then 7 trials of 600 each.
    assert budget.eta_s == pytest.approx((100 + 7 * 600) / 10)
    limited = Budget(time_budget_s=130.0)
    limited.update(trials, 10)
    now = 220.0
    limited.update(trials, 10)
    assert (limited.eta_s, limited.limit_s) == (None, 30.0)
    assert [large(x) for x in (950, 12_500, 3_200_000, 4e9)] == ["950", "12.5k", "3.2M", "4G"]


def test_the_table_is_drawn_at_a_limited_rate() -> None:
    progress = _progress(terminal=True)
    progress.interval_s = 60.0
    trial = _trial("aaa", "RUNNING", 1.0)
    progress.on_step_end(1, [trial])
    size = len(_output(progress))
    for step in range(100):
        progress.on_step_end(step, [trial])
    assert len(_output(progress)) == size > 0
    progress.stop()


def test_a_broken_terminal_never_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.dup2", lambda *_: None)  # rich would close this process's output

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    for terminal in (True, False):
        console = Console(file=Gone(), force_terminal=terminal)
        progress = Progress("m", "max", total_trials=1, name="n", console=console, interval_s=0)
        trial = _trial("aaa", "RUNNING", 1.0)
        progress.on_trial_start(1, [trial], trial)
        progress.on_step_end(1, [trial])
        progress.on_trial_error(1, [trial], trial)
        progress.on_experiment_end([trial])
        progress.on_step_end(1, [SimpleNamespace()])  # type: ignore[list-item]


def test_long_sweeps_keep_the_best_and_the_running_trials() -> None:
    trials = [_trial(f"t{i}", "TERMINATED", float(i)) for i in range(50)]
    trials += [_trial(f"r{i}", "RUNNING", -float(i)) for i in range(3)]
    trials += [_trial("new", "RUNNING"), _trial("waiting", "PENDING"), _trial("nan", "ERROR")]
    highest, lowest = LiveOrder(METRIC, "max"), LiveOrder(METRIC, "min")
    rows = [trial.trial_id for trial in select_rows(highest.best_first(trials), MAX_ROWS)]
    assert len(rows) == MAX_ROWS
    assert rows[:2] == ["t49", "t48"]
    assert rows[-4:] == ["r0", "r1", "r2", "new"]
    assert {"waiting", "nan"}.isdisjoint(rows)
    rows = [trial.trial_id for trial in select_rows(lowest.best_first(trials), 3)]
    assert rows == ["r2", "r1", "r0"]
    many = [_trial(f"r{i}", "RUNNING", 0.0) for i in range(40)] + [_trial("b", "TERMINATED", 9.0)]
    assert select_rows(highest.best_first(many), 5)[0].trial_id == "b"


def test_best_ignores_missing_and_non_finite_values() -> None:
    progress = _progress(terminal=False)
    trials = [
        _trial("a", "ERROR"),
        _trial("b", "RUNNING", float("nan")),
        _trial("c", "RUNNING", 0.0),
    ]
    best = progress._order.best(trials)
    assert best is not None
    assert best.trial_id == "c"
    assert _progress(terminal=False)._order.best(trials[:2]) is None


def test_varying_settings() -> None:
    a = _trial("a", "RUNNING", lr=1, model={"layers": [64], "act": "tanh"})
    b = _trial("b", "RUNNING", lr=2, model={"layers": [32], "act": "tanh"})
    assert list(varying_settings([a, b])) == ["lr", "model/layers"]
    assert list(varying_settings([a])) == ["lr", "model/layers", "model/act"]


def test_it_survives_tunes_pickle() -> None:
    progress = _progress(terminal=True)
    trial = _trial("aaa", "RUNNING", 1.0)
    progress.on_step_end(1, [trial])
    again = pickle.loads(pickle.dumps(progress))
    again.console = Console(file=io.StringIO(), width=100)
    progress.stop()
    again.on_trial_start(1, [trial], trial)
    assert "trial aaa started" in _output(again)
    with pytest.raises(ValueError, match='"max" or "min", got \'up\''):
        Progress("m", "up", total_trials=1, name="n")


def test_a_trial_that_is_paused_and_goes_on_is_told_once_and_its_new_settings_are() -> None:
    progress = _progress(terminal=False)
    trials = [_trial("aaa", "RUNNING", None, lr=0.001), _trial("bbb", "RUNNING", None, lr=0.002)]
    for _ in range(3):
        progress.on_trial_start(1, trials, trials[0])
    trials[0].config = {"lr": 0.005}
    progress.on_trial_start(1, trials, trials[0])
    lines = [line.partition("] ")[2] for line in _output(progress).splitlines()]
    assert lines == ["trial aaa started  lr=0.001", "trial aaa continues with  lr=0.005"]
