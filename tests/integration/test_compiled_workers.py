"""`torch_compile_worker` in processes of their own."""

from typing import Any

import pytest
from small_runs import settings_of

from trainables.registry import get_algorithm


@pytest.mark.full(
    "integration/test_evaluation_actors.py::test_actors_play_the_episodes_that_the_trials_process_would"
)
@pytest.mark.usefixtures("ray_here")
def test_env_runners_and_evaluations_in_actors_compile_what_acts() -> None:
    def graphs_of(runner: Any) -> int:
        """Return how many programs were compiled in a process."""
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])

    settings = settings_of(
        "PPO",
        "CartPole-v1",
        torch_compile_worker=True,
        torch_compile_worker_dynamo_backend="aot_eager",
        num_env_runners=1,
        num_cpus_per_env_runner=0.5,
        evaluation_num_env_runners=1,
        evaluation_duration=2,
    )
    with get_algorithm("PPO")(config=settings) as algo:
        before = graphs_of(None)
        algo.train()
        algo.evaluate()
        (sampling,) = algo.env_runners.foreach_env_runner(graphs_of, local_env_runner=False)
        (playing,) = algo.eval_env_runner_group.foreach_env_runner(graphs_of)
        assert sampling > 0 and playing > 0
        assert graphs_of(None) == before  # nothing acted here
