"""Plots as files: whole or not at all, the same bytes each time, and one clear error where there can be none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from figures import legend_texts, made_fit, many_parameters
from matplotlib.figure import Figure
from workspaces import document, modifier, mu, sample

from nsmath import viz
from nsmath.cli.main import main
from nsmath.errors import OptionError
from nsmath.viz import FORMATS, correlations, pulls, save

BEGINNINGS = {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-", ".svg": b"<?xml"}
SMALL = document(
    {"SR": [sample("s", [5.0, 2.0], mu()), sample("b", [50.0, 9.0], modifier("n", "normsys", {"lo": 0.9, "hi": 1.1}))],
     "CR": [sample("b", [99.0, 20.0], modifier("n", "normsys", {"lo": 0.8, "hi": 1.1}))]},
    {"SR": [52.0, 13.0], "CR": [101.0, 19.0]},
)  # fmt: skip
# Command -> its arguments, and the number of figures.
COMMANDS = {
    "fit": (["fit"], 2),
    "hypotest-toys": (["hypotest-toys", "--mu", "1", "--n-toys", "30", "--threads", "1"], 1),
    "inspect": (["inspect"], 2),
    "inspect after a fit": (["inspect", "--fit"], 2),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a small workspace."""
    path = tmp_path_factory.mktemp("workspace") / "small.json"
    path.write_text(json.dumps(SMALL))
    return str(path)


def figure() -> Figure:
    return pulls(model := many_parameters(3), made_fit(model))


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def pages(content: bytes) -> int:
    return len(re.findall(rb"/Type /Page\b", content))


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_figure_is_written_in_the_format_of_the_suffix_with_the_same_bytes_each_time(
    suffix: str, tmp_path: Path
) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix.upper()}"
    assert save(figure(), first) == (first,)
    assert save(figure(), str(second)) == (second,)
    assert first.read_bytes().startswith(BEGINNINGS[suffix])
    assert first.read_bytes() == second.read_bytes()


def test_several_figures_are_pages_of_a_pdf_and_files_of_other_formats(tmp_path: Path) -> None:
    figures = {"pulls": figure(), "SR/1": figure(), "SR 1": figure()}
    assert save(figures, tmp_path / "all.pdf") == (tmp_path / "all.pdf",)
    assert pages((tmp_path / "all.pdf").read_bytes()) == 3
    written = save(figures, tmp_path / "all.png")
    assert [path.name for path in written] == ["all-pulls.png", "all-SR_1.png", "all-SR_1-2.png"]
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "all.pdf", *written])


@pytest.mark.parametrize("name", ["plot", "plot.jpg", "plot.png.txt", ".png"])
def test_a_wrong_suffix_is_an_error_that_names_the_formats(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"expected one of \.png, \.pdf, \.svg"):
        save(figure(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plot.png"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OptionError, match="No space left"):
        save(figure(), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_names_are_shown_as_they_are() -> None:
    model = many_parameters(3)
    names = ("$mu$", "_under_score", r"50 % \alpha $", "a^2")
    found = pulls(model, made_fit(model, names=names))
    found.draw_without_rendering()
    labels = found.axes[0].get_yticklabels()
    assert [label._preprocess_math(label.get_text()) for label in labels] == [(name, False) for name in names[1:]]
    (first, *_), is_formula = found.axes[0].title._preprocess_math(viz.style.plain("$mu$"))
    assert (first, is_formula) == ("$", False)
    assert legend_texts(found)


def test_the_users_settings_are_neither_used_nor_changed(tmp_path: Path) -> None:
    usual = save(correlations(made_fit(many_parameters(3))), tmp_path / "usual.png")[0].read_bytes()
    with matplotlib.rc_context({"font.size": 31.0, "axes.facecolor": "red", "savefig.dpi": 11, "text.usetex": True}):
        before = dict(matplotlib.rcParams)
        theirs = save(correlations(made_fit(many_parameters(3))), tmp_path / "theirs.png")[0].read_bytes()
        assert dict(matplotlib.rcParams) == before
    assert theirs == usual


def test_every_public_name_is_there_and_no_other() -> None:
    assert set(viz.__all__) <= set(dir(viz))
    for name in viz.__all__:
        assert getattr(viz, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'pie_chart'"):
        viz.pie_chart


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("fit", ".png"), ("hypotest-toys", ".svg"), ("inspect", ".pdf"), ("inspect after a fit", ".svg")],
)
def test_commands_draw_their_results(
    name: str, suffix: str, small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, n_figures = COMMANDS[name]
    path = tmp_path / f"plot{suffix}"
    code, out, err = run([*arguments, "-i", small, "--plot", str(path)], capsys)
    assert code == 0
    assert out
    written = sorted(tmp_path.iterdir())
    assert len(written) == (1 if suffix == ".pdf" else n_figures)
    assert all(file.read_bytes().startswith(BEGINNINGS[suffix]) for file in written)
    if suffix == ".pdf":
        assert pages(path.read_bytes()) == n_figures
    assert all((str(file) in err) == (file != path) for file in written)


BAD_PLOTS = {
    "suffix": ("{tmp}/plot.gif", ["'.gif'", ".png, .pdf, .svg"]),
    "none": ("{tmp}/plot", ["''", ".png, .pdf, .svg"]),
    "stdout": ("-", ["--plot -", "a file"]),
    "folder": ("{tmp}/none/plot.png", ["--plot", "does not exist"]),
    "is a folder": ("{tmp}/folder.png", ["--plot", "is a folder"]),
    "output": ("{tmp}/out.svg", ["--plot", "--output too"]),
}


@pytest.mark.parametrize("defect", BAD_PLOTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_plot_that_cannot_be_made_is_refused_before_anything_is_done(
    name: str, defect: str, small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.png").mkdir()
    plot, fragments = BAD_PLOTS[defect]
    code, out, err = run(
        [*COMMANDS[name][0], "-i", small, "--plot", plot.format(tmp=tmp_path), "-o", str(tmp_path / "out.svg")], capsys
    )
    assert (code, out) == (2, "")
    assert all(fragment in err for fragment in fragments)
    assert err.count("error:") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "folder.png"]


def test_the_input_is_never_replaced_by_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "workspace.svg"
    path.write_text("{}")
    code, _, err = run(["fit", "-i", str(path), "--plot", str(path)], capsys)
    assert code == 2
    assert "is the input itself" in err
    assert path.read_text() == "{}"


@pytest.mark.parametrize("name", COMMANDS)
def test_without_matplotlib_one_error_names_the_extra(
    name: str, small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = run([*COMMANDS[name][0], "-i", small, "--plot", str(tmp_path / "a.png")], capsys)
    assert (code, out) == (2, "")
    assert "pip install 'nsmath[plot]'" in err
    assert err.count("error:") == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OptionError, match=r"nsmath\[plot\]"):
        correlations(made_fit(many_parameters(3)))


def test_pyplot_is_never_loaded_and_matplotlib_only_for_plots(small: str, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from nsmath.cli.main import cli\n"
        "import nsmath.viz.toys, nsmath.viz.channels, nsmath.viz.parameters, nsmath.viz.scans\n"
        f"inspect = ['inspect', '-i', {small!r}, '-q']\n"
        "cli.main(inspect, standalone_mode=False)\n"
        "print('matplotlib' in sys.modules)\n"
        f"cli.main([*inspect, '--plot', {str(tmp_path / 'a.pdf')!r}], standalone_mode=False)\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
