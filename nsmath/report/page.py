"""`workspace_report` and `store_report`: sections as one HTML page that needs nothing else."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from nsmath import __version__
from nsmath.errors import OptionError
from nsmath.model.model import Model
from nsmath.plan.plan import Plan
from nsmath.plan.tuned import machine_name
from nsmath.report.blocks import Block, Facts, facts
from nsmath.report.store_sections import STORE_SECTIONS, StoreSubject
from nsmath.report.workspace_sections import WORKSPACE_SECTIONS, Section, WorkspaceSubject, section_blocks
from nsmath.spec.workspace import Workspace
from nsmath.store.toystore import ToyStore
from nsmath.viz.style import require_matplotlib

Note = Callable[[str], None]

DEFAULT_TOYS = 300
"""Toys of the goodness of fit in a report."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A section with what it shows."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def require_jinja() -> None:
    """Do nothing where pages can be made.

    Raises
    ------
    OptionError
        jinja2 or matplotlib is not installed.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise OptionError("reports need jinja2, which is not installed: pip install 'nsmath[report]'.") from None
    require_matplotlib()


def workspace_report(
    workspace: Workspace, model: Model, *, source: str = "", n_toys: int = DEFAULT_TOYS, seed: int = 0,
    plan: Plan | None = None, command: Sequence[str] = (), note: Note | None = None,
) -> str:  # fmt: skip
    """Return the report on a workspace as one HTML page.

    Parameters
    ----------
    model : made of ``workspace``. source : what it was read from.
    n_toys, seed : of the goodness of fit.
    plan : a plan of this model; one is made for the call when None.
    command : the command line, for the provenance. note : called with what is being computed.

    Raises
    ------
    OptionError
        jinja2 or matplotlib is not installed.
    FitError, ModelError
        The best fit cannot be made; what single sections need and cannot have is said there.
    """
    require_jinja()
    if plan is None:
        with Plan(model, tune=False) as own:
            return workspace_report(
                workspace, model, source=source, n_toys=n_toys, seed=seed, plan=own, command=command, note=note
            )
    subject = WorkspaceSubject(workspace, model, plan, n_toys, seed, note or _nothing)
    made = {**plan.origin, "plan": str(plan.tuned), **plan.versions}
    rows = [("source", source), ("measurement", model.measurement), ("model digest", model.digest),
            ("interpolation", _codes(model.interp.to_dict())), ("seed", seed)]  # fmt: skip
    return _page(f"{model.measurement}: report", WORKSPACE_SECTIONS, subject, rows, made, command)


def store_report(store: ToyStore, *, command: Sequence[str] = (), note: Note | None = None) -> str:
    """Return the report on a store of toys as one HTML page; parameters and errors as `workspace_report`."""
    require_jinja()
    identity = store.identity
    rows = [("source", store.folder), ("measurement", identity.measurement), ("model digest", identity.model_digest),
            ("interpolation", _codes(identity.interpolation)), ("test statistic", identity.test_stat),
            ("auxiliary data", identity.aux), ("seed", identity.seed)]  # fmt: skip
    subject = StoreSubject(store, note or _nothing)
    title = f"{identity.measurement}: toys"
    return _page(title, STORE_SECTIONS, subject, rows, {"plan": str(store.tuned), **store.made_with}, command)


def _nothing(text: str) -> None:
    pass


def _codes(codes: Mapping[str, str]) -> str:
    return ", ".join(f"{kind} {code}" for kind, code in codes.items())


def _page(
    title: str, sections: Sequence[Section], subject: Any, rows: Sequence[tuple[str, object]],
    made_with: Mapping[str, str], command: Sequence[str],
) -> str:  # fmt: skip
    from jinja2 import Environment, StrictUndefined

    filled = [
        Filled(section.name, section.title, tuple(section_blocks(section, subject)))
        for section in sections
        if section.applies(subject)
    ]
    filled.append(Filled("provenance", "Provenance", (_provenance(rows, made_with, command),)))
    folder = files("nsmath.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    page = environment.from_string(folder.joinpath("page.html.j2").read_text(encoding="utf-8"))
    return page.render(
        title=title, sections=filled, zip=zip, css=folder.joinpath("page.css").read_text(encoding="utf-8"),
        js=folder.joinpath("page.js").read_text(encoding="utf-8"),
    )  # fmt: skip


def _provenance(
    rows: Sequence[tuple[str, object]], made_with: Mapping[str, str], command: Sequence[str]
) -> Facts:  # fmt: skip
    """Return where a page comes from: enough to make it again."""
    here = [
        ("made", time.strftime("%Y-%m-%d %H:%M:%S %z")), ("by", f"nsmath {__version__}"),
        ("machine", f"{machine_name()}, {platform.platform()}, Python {platform.python_version()}"),
    ]  # fmt: skip
    said = [("command", " ".join(command))] if command else []
    return facts([*((k, v) for k, v in rows if str(v)), *said, *made_with.items(), *here])
