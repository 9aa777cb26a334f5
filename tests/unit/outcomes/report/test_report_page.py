"""The report's page: it loads nothing, escapes everything, and says what the sweep says."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from analysis_sweeps import make_sweep, row
from report_pages import ParsedPage, parse_page

from analysis import ResultsError, write_report
from analysis.overview.best_pictures import BEST_PICTURES, BestPicture

EVIL = "</script><script>alert(1)</script><b onclick='x'>&amp;"


def curve(*values: float, **more: float) -> list[dict]:
    return [row(i, v, done=i == len(values), **more) for i, v in enumerate(values, start=1)]


def trials(count: int = 4) -> dict[str, dict]:
    return {
        f"t{n}": {
            "rows": curve(1.0 * n, 2.0 * n, 3.0 * n),
            "config": {"lr": 10.0**-n, "model": {"act": ["relu", "tanh"][n % 2]}},
            "searched": {"lr": 10.0**-n, "model/act": "x"},
        }
        for n in range(1, count + 1)
    }


def page_of(folder: Path, **options: str) -> ParsedPage:
    return parse_page(write_report(folder, **options))


def test_nothing_is_loaded_and_the_policy_forbids_it(tmp_path: Path) -> None:
    path = write_report(make_sweep(tmp_path, trials()))
    page = parse_page(path)
    assert path == tmp_path / "sweep" / "report.html"
    assert path.stat().st_size < 6e6
    loading = ("src", "srcset", "data", "poster", "action", "formaction", "background", "ping")
    assert [a for a in page.attributes if a[1] in loading] == []
    links = [value for _, name, value in page.attributes if name in ("href", "xlink:href")]
    assert links and all(link.startswith("#") for link in links)
    assert not page.tags.keys() & {"link", "img", "iframe", "object", "embed", "base", "form"}
    assert not re.search(r"url\(|@import", "".join(page.styles))
    own = page.scripts[-1][1]
    assert not re.search(r"https?:|\bfetch\(|XMLHttpRequest|\bimport\(|WebSocket|sendBeacon", own)
    assert "showSendToCloud: false" in own  # plotly's own button would open its makers' server
    (policy,) = [v for _, n, v in page.attributes if n == "content" and "default-src" in v]
    assert "default-src 'none'" in policy and "unsafe-inline'; style" not in policy
    assert "connect-src" not in policy and "unsafe-eval" not in policy


def test_only_the_two_scripts_of_the_page_run(tmp_path: Path) -> None:
    page = page_of(make_sweep(tmp_path, trials()))
    (policy,) = [v for _, n, v in page.attributes if n == "content" and "default-src" in v]
    script_src = policy.split("script-src ")[1].split(";")[0]
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (page.scripts[-1][1], page.packed("plotly"))
    ]
    assert script_src.split() == hashes
    assert [given.get("type") for given, _ in page.scripts] == ["text/plain", "text/plain", None]


@pytest.mark.parametrize("spec", ["", "trainable: PPO"])
def test_links_lead_somewhere_and_ids_are_unique(tmp_path: Path, spec: str) -> None:
    sweep = make_sweep(tmp_path, trials())
    (sweep / "spec.yaml").write_text(spec)
    page = page_of(sweep)
    targets = {value[1:] for _, name, value in page.attributes if name == "href"}
    assert targets <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert {"s-leaderboard", "s-reproduce", "s-environment"} <= targets
    assert ("s-trial-t1" in targets) == bool(spec)


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("picture", BEST_PICTURES, ids=lambda picture: picture.key)
def test_pictures_of_the_best_policy_are_on_the_page_itself(
    picture: BestPicture, tmp_path: Path
) -> None:
    sweep = make_sweep(tmp_path, trials(2))
    (sweep / picture.file).write_bytes(PIXEL)
    page = page_of(sweep)
    (source,) = [value for tag, name, value in page.attributes if (tag, name) == ("img", "src")]
    kind, _, content = source.partition(",")
    assert kind == "data:image/png;base64" and base64.b64decode(content) == PIXEL
    (alt,) = [value for tag, name, value in page.attributes if (tag, name) == ("img", "alt")]
    assert alt == picture.alt
    (policy,) = [v for _, n, v in page.attributes if n == "content" and "default-src" in v]
    assert "img-src data:" in policy
    assert f"#s-{picture.key}" in [value for _, name, value in page.attributes if name == "href"]
    assert picture.caption.split("`")[0] in page.text


@pytest.mark.parametrize("content", [None, b"", b"<svg onload='x'/>"])
def test_no_picture_and_one_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    sweep = make_sweep(tmp_path, trials(2))
    if content is not None:
        (sweep / "open_loop.png").write_bytes(content)
    page = page_of(sweep)
    assert not page.tags["img"] and "s-open-loop" not in page.ids


def test_text_of_users_is_escaped(tmp_path: Path) -> None:
    sweep = make_sweep(
        tmp_path,
        {
            "a": {"config": {"act": EVIL, "lr": 0.1}, "searched": {"act": EVIL}},
            "b": {"config": {"act": "relu", "lr": 0.1}, "status": "ERROR", "rows": []},
        },
        name="<i>sweep",
    )
    (sweep / "trial_b" / "error.txt").write_text(f"Traceback\nValueError: {EVIL}\n")
    (sweep / "spec.yaml").write_text(f'name: x\ntrainable: "{EVIL}"\n')
    page = page_of(sweep, title=f"Title {EVIL}")
    assert page.tags["script"] == 3
    assert "b" not in page.tags and "i" not in page.tags
    assert not [a for a in page.attributes if a[1].startswith("on")]
    assert page.text.count(EVIL) >= 4  # the title twice, the setting, the cause


def test_the_page_says_what_the_sweep_says(tmp_path: Path) -> None:
    page = page_of(make_sweep(tmp_path, trials(12)))
    assert "Trial t12 won with 36, 3 better than the second, t11." in page.text
    assert "single run" in page.text  # no seeds: no interval
    (folded,) = [v for tag, name, v in page.attributes if name == "data-top"]
    assert folded == "10"
    assert page.text.index("t12") < page.text.index("t11")


def test_a_sweep_whose_trials_all_failed_has_a_page(tmp_path: Path) -> None:
    failing = {f"t{n}": {"rows": [], "status": "ERROR"} for n in range(3)}
    sweep = make_sweep(tmp_path, failing)
    for n in range(3):
        cause = "KeyError: 'a'" if n else "OSError: disk"
        (sweep / f"trial_t{n}" / "error.txt").write_text(f"Traceback\n  x\n{cause}\n")
    page = page_of(sweep)
    assert "There is no winner: no trial has reported the objective." in page.text
    assert "3 of 3 trials failed, 2 of them with: KeyError: 'a'." in page.text
    assert "2 trials (t1 and t2): KeyError: 'a'" in page.text


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"t0": {"rows": curve(1.0, 5.0)}}, "The only trial, t0, ended at 5."),
        (
            {"t0": {"rows": [row(1, 2.0)], "status": "RUNNING"}, "t1": {"rows": curve(1.0)}},
            "1 trial had not ended when this report was written",
        ),
        ({"t0": {"rows": curve(float("nan"))}}, "the objective has no finite value"),
        ({"t0": {"rows": [], "status": "PENDING"}}, "no trial has reported the objective"),
    ],
)
def test_young_and_poor_sweeps_have_a_page(tmp_path: Path, made: dict, said: str) -> None:
    assert said in page_of(make_sweep(tmp_path, made)).text


def test_several_sweeps_have_a_part_each(tmp_path: Path) -> None:
    a = make_sweep(tmp_path, trials(2), name="first")
    b = make_sweep(tmp_path, trials(3), name="second")
    path = write_report([a, b])
    page = parse_page(path)
    assert path == tmp_path / "report.html"
    assert {"s1", "s2", "s1-leaderboard", "s2-leaderboard"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_errors(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, trials(1))
    with pytest.raises(ResultsError, match="no trial reported the metric 'episode_return'"):
        write_report(sweep, metric="episode_return")
    with pytest.raises(ResultsError, match="no sweep was given"):
        write_report([])
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot write the report"):
        write_report(sweep, tmp_path / "file" / "x.html")
    assert not (sweep / "report.html").exists()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_a_browser_draws_every_figure(tmp_path: Path) -> None:
    path = write_report(make_sweep(tmp_path, trials(9)))
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000"),
            *("--window-size=390,844", "--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert 'data-figures="drawn"' in done.stdout
    assert done.stdout.count('<svg class="main-svg"') >= len(parse_page(path).figures)
