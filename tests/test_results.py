"""Everything that the package returns shows itself: as a dictionary, in a few lines, and as HTML."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from workspaces import FIXTURES, modifier, mu, one_channel, sample

from nsmath.cli.inputs import EXAMPLE
from nsmath.cli.output import finite, json_text
from nsmath.fitting.fit import fit
from nsmath.fitting.inspection import inspection
from nsmath.infer.asymptotic_api import hypotest, upper_limit
from nsmath.infer.goodness import goodness_of_fit
from nsmath.infer.hypotest import hypotest_toys, toy_upper_limit
from nsmath.infer.intervals import intervals
from nsmath.infer.limit_curve import Crossing
from nsmath.infer.ranking import ranking
from nsmath.infer.scan import scan
from nsmath.infer.single_toy import single_toy
from nsmath.infer.teststats import test_statistic as statistic_named
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.spec.lint import lint
from nsmath.spec.patchset import PatchSet
from nsmath.spec.workspace import Workspace
from nsmath.study.grid import signal_grid
from nsmath.study.run import run_study
from nsmath.summary import HTML_ROWS, TEXT_ROWS, Result, Summary, html_of, text_of

ROOT = Path(__file__).resolve().parents[1] / "nsmath"
NOT_RESULTS = {
    "Edited": "a workspace", "Interpolation": "a choice", "StoppingRule": "a choice", "Transfers": "a count of copies",
    "Workspace": "what a file says", "Ledger": "what keeps count of copies",
}  # fmt: skip
NAME = "<b>&mu</b>"
"""A name that would be markup if it were not escaped."""


def classes() -> list[type]:
    """Return all classes of the package that have a ``to_dict``, by introspection."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("nsmath", *path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] in ("__init__", "__main__"):
            continue
        module = importlib.import_module(".".join(parts))
        members = inspect.getmembers(module, inspect.isclass)
        found += [c for _, c in members if c.__module__ == module.__name__ and hasattr(c, "to_dict")]
    return [c for c in found if c is not Result]


RESULTS = [c for c in classes() if c.__name__ not in NOT_RESULTS]


def named(name: str) -> Model:
    """Return a small model whose measurement's POI is called ``name``."""
    spec = one_channel(
        sample("s", [5.0], mu(name)), sample("b", [10.0], modifier("u", "shapesys", [2.5])), observed=[9.0]
    )
    spec["measurements"][0]["config"]["poi"] = name
    return Model.from_workspace(spec)


@pytest.fixture(scope="module")
def examples() -> dict[str, list[Result]]:
    """Return results by the name of their class, of ordinary and of odd cases."""
    model = named(NAME)
    workspace = Workspace.from_file(EXAMPLE)
    shipped = Model.from_workspace(workspace)
    far = Model.from_workspace(one_channel(sample("s", [0.0], mu()), sample("b", [3.0]), observed=[4.0]))
    with Plan(model, threads=1, tune=False, width=64) as plan:
        toys = [
            hypotest_toys(model, n_toys=50, plan=plan, expected_set=True),
            hypotest_toys(model, n_toys=50, plan=plan, test_stat="q0"),
            hypotest_toys(model, 9.0, n_toys=3, plan=plan, expected_set=True),
        ]
        limits = toy_upper_limit(model, n_toys=100, plan=plan)
        toy = single_toy(plan, statistic_named("qtilde"), 1.0, hypothesis="b", index=3, seed=0)
    best = fit(shipped)
    looked = [inspection(workspace, shipped), inspection(workspace, shipped, best)]
    study = {
        "workspace": str(EXAMPLE),
        "mu": [1.0],
        "n_toys": 20,
        "points": [{"name": "a"}, {"workspace": "none.json"}],
    }
    done = run_study(study, threads=1)
    step = {"op": "add", "path": "/channels/0/samples/0", "value": sample("t", [2.0], mu("mu_t"))}
    patches = PatchSet(
        ("good", "bad"), ((100,), (200,)), ("mass",), {}, ([step], [{**step, "path": "/channels/9/samples/0"}])
    )
    grid = signal_grid(FIXTURES["F2"], patches)
    bad = json.loads(json.dumps(FIXTURES["F2"]))
    bad["channels"][0]["name"] = NAME
    edges, ranked = intervals(model, levels=(0.6827, 0.95)), ranking(model)
    profiles = [
        edges, edges.intervals[0], edges.intervals[0].lower, edges.intervals[0].upper, ranked, ranked.parameters[0],
        ranked.parameters[0].postfit_impact[0], scan(model, NAME), scan(model, [NAME, "u[0]"]),
        goodness_of_fit(model), goodness_of_fit(model, n_toys=20),
    ]  # fmt: skip
    everything = [
        *profiles, grid, *grid.points,
        best, fit(model), fit(model, fixed={NAME: 1.0}), *toys, toys[0].expected_set,
        limits, toy, toy.free, hypotest(model, 1.0), hypotest(model, 1.0, test_stat="q0"), upper_limit(model),
        upper_limit(far), *looked, looked[0].modifiers[0], looked[1].postfit[0], looked[1].postfit[0].all,
        looked[0].nominal[0].all, lint(bad), lint(FIXTURES["F3"]), lint(bad).findings[0], done, *done.rows,
    ]  # fmt: skip
    by_name: dict[str, list[Result]] = {}
    for result in everything:
        assert isinstance(result, Result)
        by_name.setdefault(type(result).__name__, []).append(result)
    return by_name


@pytest.mark.parametrize("result", RESULTS, ids=lambda c: c.__name__)
def test_a_class_with_a_dictionary_is_a_frozen_result(result: type) -> None:
    assert issubclass(result, Result), f"derive {result.__name__} from nsmath.summary.Result, or say what it is"
    assert dataclasses.is_dataclass(result)
    assert result.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert result.__repr__ is Result.__repr__, "pass repr=False to @dataclass"
    assert result._repr_html_ is Result._repr_html_
    assert result.summary.__doc__


def test_what_is_no_result_is_still_there() -> None:
    assert set(NOT_RESULTS) <= {c.__name__ for c in classes()}


@pytest.mark.parametrize("result", RESULTS, ids=lambda c: c.__name__)
def test_a_result_is_a_dictionary_a_few_lines_and_a_table(result: type, examples: dict[str, list[Result]]) -> None:
    for example in examples[result.__name__]:
        written = json.loads(json_text(finite(example.to_dict())))
        assert isinstance(written, dict) and written
        lines = repr(example).splitlines()
        assert lines[0].startswith(f"{result.__name__}: ")
        assert 2 <= len(lines) <= 3 + TEXT_ROWS + 16
        assert not any(line.endswith(" ") for line in lines)
        assert "array(" not in repr(example) and "object at" not in repr(example) and "None" not in repr(example)
        html = example._repr_html_()
        assert NAME not in html
        balanced(html)
        for _, value in example.summary().facts:
            assert value and value in repr(example)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.widths: list[int] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.widths.append(0)
        if tag in ("td", "th"):
            self.widths[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def balanced(html: str) -> None:
    """Check that every tag is closed in its place."""
    parser = _Tags()
    parser.feed(html)
    parser.close()
    assert parser.open == []


SHOWN: dict[str, Callable[[dict[str, list[Result]]], tuple[Result, list[float]]]] = {
    "fit": lambda e: (e["FitResult"][1], [e["FitResult"][1].values[0], e["FitResult"][1].nll]),
    "toys": lambda e: (e["ToyTestResult"][0], [e["ToyTestResult"][0].cls, e["ToyTestResult"][0].clb_error]),
    "limits": lambda e: (e["ToyLimitResult"][0], [e["ToyLimitResult"][0].observed.mu, *(
        crossing.mu for crossing in e["ToyLimitResult"][0].expected)]),
    "asymptotic": lambda e: (e["AsymptoticTestResult"][0], [*e["AsymptoticTestResult"][0].expected_cls]),
}  # fmt: skip


@pytest.mark.parametrize("case", SHOWN)
def test_the_numbers_of_a_summary_are_those_of_the_result(case: str, examples: dict[str, list[Result]]) -> None:
    result, numbers = SHOWN[case](examples)
    shown = [float(text) for text in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", repr(result))]
    for number in numbers:
        assert np.isclose(shown, number, rtol=0.06, atol=0.0).any(), number


def test_a_limit_beyond_the_bound_and_an_empty_tail_are_bounds(examples: dict[str, list[Result]]) -> None:
    assert "observed            > 10" in repr(examples["AsymptoticLimitResult"][1])
    assert "no toy in the tail" in repr(examples["ToyTestResult"][2])
    assert str(Crossing(None, None, 3.0)) == "> 3"
    assert str(Crossing(1.5, 0.12)) == "1.5 +- 0.12"


def test_long_tables_say_how_much_is_left_out() -> None:
    rows = tuple((f"<{k}>", str(k)) for k in range(HTML_ROWS + 5))
    long = Summary("long", (), ("name", "number"), rows)
    text = text_of("Long", long).splitlines()
    assert len(text) == 3 + TEXT_ROWS
    assert text[-1] == f"  ... and {len(rows) - TEXT_ROWS} more rows, in to_dict()"
    html = html_of(long)
    assert "... and 5 more rows" in html and "&lt;7&gt;" in html and "<7>" not in html
    parser = _Tags()
    parser.feed(html)
    assert parser.widths == [2] * (HTML_ROWS + 1)


def test_html_escapes_everything() -> None:
    evil = Summary("<a>", (("<b>", "<c>"),), ("<d>", "<e>"), (("<f>", '"<g>"'),))
    html = html_of(evil)
    assert not any(f"<{letter}>" in html for letter in "acdefg")
    assert "<b>" not in html
    balanced(html)


def test_a_result_that_has_no_summary_cannot_be_made() -> None:
    class Half(Result):
        def to_dict(self) -> dict[str, object]:
            return {}

    with pytest.raises(TypeError, match="summary"):
        Half()  # type: ignore[abstract]
