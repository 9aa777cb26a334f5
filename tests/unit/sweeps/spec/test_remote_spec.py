"""Specs from URLs: read with limits, and without a way to this machine's files."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from refusals import Golden, refusals

from experiments.spec import remote as remote_spec
from experiments.sweep.load import load_spec, load_specs
from search_spaces import SpecError

GOOD = b"""\
cartpole:
  run: PPO
  env: CartPole-v1
  stop: {episode_reward_mean: 150}
  config: {num_sgd_iter: 2}
"""
PAGES: dict[str, bytes] = {
    "/cartpole-ppo.yaml": GOOD,
    "/own.yaml": b"config: {env: CartPole-v1}\nstop: {timesteps_total: 5}\n",
    "/misspelt.yaml": GOOD.replace(b"num_sgd_iter", b"num_sdg_iter"),
    "/broken.yaml": b"a: 1\nb: [1\n",
    "/list.yaml": b"- 1\n",
    "/tag.yaml": b"a: !!python/object/apply:os.getcwd []\n",
    "/latin.yaml": "# größer".encode("latin-1"),
    "/large.yaml": b"#" * 2_000_000,
    "/extends.yaml": b"extends: quickstart\n",
    "/include.yaml": b"config:\n  include: /etc/passwd\n",
    "/env.yaml": b"config: {env: CartPole-v1}\nmlflow:\n  tracking_uri: http://x/${env:HOME}\n",
}
FILES = {
    "space": ("search_space: /tmp/x.yaml/small", "search_space = '/tmp/x.yaml/small'"),
    "base": ("search_space: {base: x.yml}", "search_space.base = 'x.yml'"),
    "sweep": ("scheduler: {algorithm: pbt_replay, sweep: runs/x}", "scheduler.sweep = 'runs/x'"),
    "warm": (
        "search: {algorithm: tpe, warm_start: [{folder: runs/x}]}",
        "search.warm_start.0.folder = 'runs/x'",
    ),
    "matrix": ("matrix: {agent: {a: {search_space: x.yaml}}}", "search_space = 'x.yaml'"),
}
for name, (line, _) in FILES.items():
    text = f"config: {{env: CartPole-v1}}\nstop: {{timesteps_total: 5}}\n{line}\n"
    PAGES[f"/{name}-file.yaml"] = text.encode()
REDIRECTS = {
    "/moved.yaml": "/cartpole-ppo.yaml",
    "/to-file.yaml": "file:///etc/passwd",
    "/to-ftp.yaml": "ftp://127.0.0.1/x.yaml",
    "/loop.yaml": "/loop.yaml",
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.path = self.path.partition("?")[0]
        if self.path in REDIRECTS:
            self.send_response(302)
            self.send_header("Location", REDIRECTS[self.path])
            self.end_headers()
        elif self.path == "/drip.yaml":
            self.send_response(200)
            self.end_headers()
            for _ in range(30):
                self.wfile.write(b"#")
                time.sleep(0.1)
        elif self.path in PAGES or self.path == "/page.yaml":
            self.send_response(200)
            kind = "text/html" if self.path == "/page.yaml" else "text/plain; charset=utf-8"
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(PAGES.get(self.path, b"<html>"))
        else:
            self.send_error(404)

    def log_message(self, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *args: Any) -> None:
        """A reader that gives up breaks the pipe."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize("page", ["cartpole-ppo", "moved"])
def test_rllibs_form(url: str, page: str) -> None:
    spec = load_spec(f"{url}/{page}.yaml", ["num_samples=2"])
    assert (spec.name, spec.trainable, spec.num_samples) == ("cartpole", "PPO", 2)
    assert spec.config == {"env": "CartPole-v1", "num_epochs": 2}


def test_our_own_form_is_named_after_the_file(url: str) -> None:
    (spec,) = load_specs(f"{url}/own.yaml?raw=true")
    assert spec.name == "own" and spec.stop == {"num_env_steps_sampled_lifetime": 5}


WRONG = [
    "misspelt",
    "broken",
    "tag",
    "list",
    "latin",
    "large",
    "page",
    "missing",
    "to-file",
    "to-ftp",
    "loop",
    "extends",
    "include",
    "env",
]


def test_what_is_wrong_is_named_by_url_and_line(url: str, golden: Golden) -> None:
    def read(page: str) -> None:
        load_spec(f"{url}/{page}.yaml")

    texts = refusals(read, WRONG, SpecError)
    assert all(text.startswith(url) for text in texts.values())
    golden(
        "sweeps/remote_specs", {page: text.replace(url, "<url>") for page, text in texts.items()}
    )


def test_files_of_this_machine_are_not_read(url: str) -> None:
    for page, (_, said) in FILES.items():
        with pytest.raises(SpecError) as error:
            load_specs(f"{url}/{page}-file.yaml")
        assert f"-file.yaml:3: {said}: a spec from a URL may not set that" in str(error.value)
    with pytest.raises(SpecError, match=r"mine\.yaml: no such file"):  # the command line may
        load_specs(f"{url}/base-file.yaml", ["search_space.base=mine.yaml"])


def test_a_server_that_drips_is_given_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_spec, "TIMEOUT_S", 0.5)
    begin = time.monotonic()
    with pytest.raises(SpecError, match=r"cannot be read within 0\.5 seconds"):
        load_spec(f"{url}/drip.yaml")
    assert time.monotonic() - begin < 2.5


ADDRESSES = [
    "file:///etc/passwd",
    "ftp://127.0.0.1/x.yaml",
    "http:///x.yaml",
    "http://[/x.yaml",
    "http://127.0.0.1:1/x.yaml",
    "http://me:secret@127.0.0.1/x.yaml",
]


def test_addresses_that_are_refused(golden: Golden) -> None:
    golden("sweeps/remote_addresses", refusals(load_spec, ADDRESSES, SpecError))


def test_https_is_not_left() -> None:
    request = remote_spec.urllib.request.Request("https://a/x.yaml")
    handler = remote_spec._Redirects()
    assert handler.redirect_request(request, None, 302, "", {}, "https://b/x.yaml") is not None
    with pytest.raises(SpecError, match=r"leads to http://b/x\.yaml, which is not followed"):
        handler.redirect_request(request, None, 302, "", {}, "http://b/x.yaml")
