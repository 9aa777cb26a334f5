"""How environment steps per second grow with env runners, and what is to be expected beyond.

PPO and IMPALA on CartPole with 0, 1 and 2 env runners, at the equal settings of `throughput.py`.
The CPU that a step costs in an env runner (sampling) and in the driver (learning, handling what
arrives, sending weights) is measured, too. From these a model says what more runners would give::

    python -m experiments.benchmarks.scaling
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.benchmarks.gather import (
    HERE,
    TITLES,
    Result,
    console,
    keep,
    measure,
    middle,
    spread,
    table,
)

RATE = "env_steps_per_second"
SCRIPTS = {"ppo": "ppo_actors", "impala": "impala"}
MODELLED = (0, 1, 2, 4, 8, 16)


def main() -> None:
    """Measures, prints measurement and model, and writes `scaling.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--algorithms", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--env-runners", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each")
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps of each")
    parser.add_argument("--warmup", type=int, default=20_000, help="environment steps before that")
    parser.add_argument("--cores", type=int, default=2, help="of the machine that is measured on")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    args = parser.parse_args()
    results: dict[str, dict[str, list[Result]]] = {name: {} for name in args.algorithms}
    for number in range(args.rounds):
        for name in args.algorithms:
            for count in args.env_runners:
                given = ("--steps", args.steps, "--warmup", args.warmup, "--env-runners", count)
                result = measure(
                    *("ours", None, "throughput", *given, "--seed", number), algorithm=SCRIPTS[name]
                )
                results[name].setdefault(str(count), []).append(result)
                console.print(f"{name}, {count} env runners: {result[RATE]:,.0f} steps/s")
    models = {}
    for name, measured in results.items():
        show(name, measured, args.cores)
        if "2" in measured:
            models[name] = {n: round(modelled(name, measured["2"], n, n + 1)) for n in MODELLED[1:]}
            line = ", ".join(f"{n}: {rate:,}" for n, rate in models[name].items())
            console.print(f"with a core for each process (model), steps/s: {line}")
    settings = {"rounds": args.rounds, "steps": args.steps, "warmup": args.warmup}
    keep(args.out, "scaling", settings, {"measured": results, "modelled": models})


def show(name: str, measured: dict[str, list[Result]], cores: int) -> None:
    """Prints what was measured of an algorithm, beside what the model says of these cores."""
    columns = ("steps/s", "range", "CPU us: runners", "driver", "learning us", "model")
    view = table(TITLES[name], "env runners", *columns)
    for count, results in measured.items():
        model = modelled(name, results, int(count), cores) if int(count) else None
        view.add_row(
            count,
            f"{middle(results, RATE):,.0f}",
            spread(results, RATE),
            *(f"{middle(results, key):.1f}" for key in ("env_runner_cpu_us", "driver_cpu_us")),
            f"{middle(results, 'learn_us'):.1f}",
            f"{model:,.0f}" if model else "",
        )
    console.print(view)


def modelled(name: str, results: list[Result], count: int, cores: int) -> float:
    """Environment steps per second of `count` env runners on so many cores.

    A step costs `sampling` seconds of CPU in a runner and `driving` in the driver, which learns,
    takes in samples and sends weights. IMPALA's runners and driver work side by side: the
    slower of them sets the pace, or all cores together if there are fewer than processes. PPO's
    wait for each other: their times add up.
    """
    sampling = middle(results, "env_runner_cpu_us") * 1e-6
    driving = middle(results, "driver_cpu_us") * 1e-6
    if name == "ppo":
        return 1 / (sampling / min(count, cores) + driving)
    return min(count / sampling, 1 / driving, cores / (sampling + driving))


if __name__ == "__main__":
    main()
