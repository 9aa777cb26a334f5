"""The examples of the page on clusters can be read."""

from __future__ import annotations

import yaml
from page_blocks import blocks, text_of


def test_its_files_are_yaml() -> None:
    ray_up, job = map(yaml.safe_load, blocks("experiments/cluster.md", "yaml"))
    assert ray_up["head_node_type"] in ray_up["available_node_types"]
    spec = job["spec"]["rayClusterSpec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    for group in groups:
        pod = group["template"]["spec"]
        mounted = {mount["name"] for c in pod["containers"] for mount in c["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_readme_links_to_it() -> None:
    assert "](cluster.md)" in text_of("experiments/README.md")
