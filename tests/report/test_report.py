"""Reports: what is in them, that they need nothing else, and that they work in a browser and on paper."""

from __future__ import annotations

import base64
import copy
import json
import re
from pathlib import Path

import pytest
from browser import chromium
from selenium.webdriver.common.by import By
from test_commands import run
from workspaces import FIXTURES, modifier, mu, one_channel, sample

from nsmath import Model, Workspace, fit, hypotest_toys, upper_limit
from nsmath.report.blocks import sort_key, table
from nsmath.report.page import store_report, workspace_report
from nsmath.report.store_sections import STORE_SECTIONS
from nsmath.report.workspace_sections import WORKSPACE_SECTIONS
from nsmath.store.toystore import ToyStore

EVIL = "<b>x</b>&"
SPEC = one_channel(
    sample("s", [5.0, 2.0], mu()),
    sample("b", [50.0, 8.0], modifier("e1", "staterror", [4.0, 2.0]), *(
        modifier(f"n{k}", "normsys", {"lo": 0.97, "hi": 1.03}) for k in range(12)
    )),
    sample(EVIL, [9.0, 3.0], modifier("u", "shapesys", [3.0, 2.0])),
    observed=[61.0, 14.0],
)  # fmt: skip


def page_of(spec: dict, **options: object) -> str:
    workspace = Workspace.from_dict(copy.deepcopy(spec))
    poi = options.pop("poi", None)
    return workspace_report(workspace, Model.from_workspace(workspace, poi=poi), n_toys=50, **options)


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(SPEC, source="ws.json", command=("nsmath", "report", "ws.json"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toys") / "store"
    model = Model.from_workspace(FIXTURES["F2"])
    for value in (1.0, 2.0):
        hypotest_toys(model, value, n_toys=100, seed=3, store=folder)
    return folder


def test_a_report_has_every_section_that_applies_and_the_numbers_of_the_functions(page):
    assert re.findall(r'<section id="(\w+)">', page) == [s.name for s in WORKSPACE_SECTIONS] + ["provenance"]
    model = Model.from_workspace(SPEC)
    best = fit(model)
    assert f"{best['mu']:.5g} (+- {best.uncertainties[model.index_of('mu')]:.4g})" in page
    assert f"{upper_limit(model).observed}" in page
    for part in (model.digest, "ws.json", "nsmath report ws.json", "normsys code4"):
        assert part in page


def test_a_report_without_a_poi_leaves_out_what_needs_one():
    page = page_of(SPEC, poi="")
    assert not {"limit", "ranking"} & set(re.findall(r'<section id="(\w+)">', page))


def test_a_section_that_cannot_be_computed_says_why_and_the_others_are_there(monkeypatch):
    from nsmath.errors import FitError
    from nsmath.report import workspace_sections

    def fails(*_: object, **__: object) -> None:
        raise FitError("no fit today")

    monkeypatch.setattr(workspace_sections, "ranking", fails)
    page = page_of(SPEC)
    assert "This section could not be computed: no fit today" in page
    assert '<section id="correlations">' in page


def test_a_page_needs_no_network_and_escapes_what_it_shows(page):
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "default-src 'none'" in page
    assert EVIL not in page
    assert "&lt;b&gt;x&lt;/b&gt;&amp;" in page


def test_images_are_whole_svg_files(page):
    found = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert len(found) >= 6
    for content in found:
        svg = base64.b64decode(content).decode()
        assert svg.rstrip().endswith("</svg>")
        assert "<script" not in svg


def test_the_report_of_a_store_has_the_tests_of_every_mu(store):
    with ToyStore.read(store) as opened:
        page = store_report(opened)
    assert set(re.findall(r'<section id="(\w+)">', page)) == (
        {s.name for s in STORE_SECTIONS} - {"gaps"} | {"provenance"}
    )
    model = Model.from_workspace(FIXTURES["F2"])
    for value in (1.0, 2.0):
        cls = hypotest_toys(model, value, n_toys=100, seed=3).cls
        assert f"{cls:.4g} +-" in page
    assert "No toy failed." in page


def test_cells_sort_by_the_number_that_they_begin_with():
    found = table(("a", "b"), [(1.5, "2 +- 1"), (None, "> 3.5e2"), (True, "word")])
    assert found.rows == (("1.5", "2 +- 1"), ("", "> 3.5e2"), ("yes", "word"))
    assert found.keys == (("1.5", "2"), ("", "3.5e2"), ("yes", "word"))
    assert sort_key("-0.031") == "-0.031"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "none.json", "-o", "{tmp}/r.html"], "no file 'none.json'"),
        (["report", "{tmp}", "-o", "{tmp}/r.html"], "is not a store of toys"),
        (["report", "{tmp}/ws.json", "-o", "-"], "a report goes to a file"),
        (["report", "{tmp}/ws.json", "-o", "{tmp}/ws.json"], "is the input itself"),
        (["report", "{tmp}/ws.json", "-o", "{tmp}/no/r.html"], "does not exist"),
    ],
)
def test_a_report_that_cannot_be_made_is_one_error_and_nothing_is_written(arguments, message, tmp_path, capsys):
    (tmp_path / "ws.json").write_text(json.dumps(SPEC))
    before = sorted(tmp_path.iterdir())
    code, _, err = run([word.format(tmp=tmp_path) for word in arguments], capsys)
    assert code == 2
    assert message in err
    assert sorted(tmp_path.iterdir()) == before


def test_the_command_makes_reports_of_workspaces_and_stores(store, tmp_path, capsys):
    for what in ("example", str(store)):
        code, out, _ = run(["report", what, "-o", str(tmp_path / "r.html"), "--n-toys", "20"], capsys)
        assert code == 0
        assert "r.html: " in out
        assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_the_page_whole_and_asks_for_nothing(page, tmp_path, width):
    (tmp_path / "r.html").write_text(page)
    with chromium(width) as browser:
        browser.get(f"file://{tmp_path / 'r.html'}")
        assert browser.get_log("browser") == []
        messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
        assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
        assert sum(url.startswith("file:") for url in asked) == 1
        images = browser.find_elements(By.TAG_NAME, "img")
        assert all(browser.execute_script("return arguments[0].naturalWidth > 0", image) for image in images)
        script = "return [document.documentElement.scrollWidth, window.innerWidth]"
        needed, there = browser.execute_script(script)
        assert there == width
        assert needed <= width


def test_tables_are_searched_and_sorted_and_the_page_prints(page, tmp_path):
    (tmp_path / "r.html").write_text(page)
    with chromium() as browser:
        browser.get(f"file://{tmp_path / 'r.html'}")
        figure = browser.find_element(By.CSS_SELECTOR, "#parameters figure.data")

        def column(k: int) -> list[str]:
            rows = figure.find_elements(By.CSS_SELECTOR, "tbody tr")
            return [row.find_elements(By.TAG_NAME, "td")[k].text for row in rows if row.is_displayed()]

        everyone = column(0)
        heads = figure.find_elements(By.CSS_SELECTOR, "thead button")
        heads[1].click()
        values = [float(text) for text in column(1)]
        assert values == sorted(values)
        heads[1].click()
        assert [float(text) for text in column(1)] == sorted(values, reverse=True)
        figure.find_element(By.TAG_NAME, "input").send_keys("n1 normal")
        assert set(column(0)) == {"n1", "n10", "n11"}
        assert figure.find_element(By.TAG_NAME, "output").text == f"3 of {len(everyone)} rows"
        printed = base64.b64decode(browser.print_page())
        assert printed.startswith(b"%PDF")
        assert 3 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 40
