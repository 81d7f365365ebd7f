"""Sections of a report on a store of toys: the tests of every mu, how they converge, and toys that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from nsmath.infer.result import ToyTestResult, untrusted
from nsmath.infer.stored import gaps, stored_results
from nsmath.infer.wording import with_error
from nsmath.report.blocks import Block, Note, image, summary_blocks, table
from nsmath.report.workspace_sections import Section
from nsmath.store.toystore import ToyStore
from nsmath.viz import cls_figure, convergence_figure, iterations_figure, q_distributions

MAX_FAILED_ROWS = 200


@dataclass
class StoreSubject:
    """A store, and the tests of its toys."""

    store: ToyStore
    note: Callable[[str], None] = field(default=lambda text: None)

    @cached_property
    def results(self) -> list[ToyTestResult]:
        """The tests by mu."""
        self.note("tests of the toys in the store")
        return stored_results(self.store, expected=True)

    @property
    def is_limit(self) -> bool:
        """CLs, not a discovery."""
        return self.store.identity.test_stat != "q0"


def tests_section(subject: StoreSubject) -> list[Block]:
    """A row for each mu, and CLs against mu where there are several."""
    rows = []
    for r in subject.results:
        p0 = with_error(r.p0, r.p0_error, r.p0_upper) if not subject.is_limit else None
        cls = with_error(r.cls, r.cls_error, r.cls_upper) if subject.is_limit else None
        rows.append((
            r.mu_test, r.q_obs, with_error(r.clsb, r.clsb_error, r.clsb_upper),
            with_error(r.clb, r.clb_error, r.clb_upper), cls or p0, f"{r.n_toys['b']} + {r.n_toys['sb']}",
            sum(r.n_nonconverged.values()) + sum(r.n_error.values()),
        ))  # fmt: skip
    last = "CLs" if subject.is_limit else "p0"
    poi = subject.store.identity.poi
    blocks: list[Block] = [table((poi, "q observed", "CLs+b", "CLb", last, "toys", "failed"), rows)]
    if subject.is_limit and len(subject.results) > 1:
        blocks.append(image(cls_figure(subject.results), f"CLs against {poi}"))
    return blocks


def distributions_section(subject: StoreSubject) -> list[Block]:
    """The distributions of q, and how CLs converges, for every mu."""
    blocks: list[Block] = []
    for result in subject.results:
        subject.note(f"figures of {result.poi} = {result.mu_test:g}")
        blocks.append(Note(f"{result.poi} = {result.mu_test:g}"))
        reason = untrusted(result)
        if reason is not None:
            blocks.append(Note(reason, warning=True))
        blocks += [
            *summary_blocks(result.summary()),
            image(q_distributions(result), f"toys by test statistic, {result.poi} = {result.mu_test:g}"),
            image(convergence_figure(result), "p-values against the number of toys"),
            image(iterations_figure(result), "iterations of the fits"),
        ]
    return blocks


def failed_section(subject: StoreSubject) -> list[Block]:
    """Toys whose fits failed, and how to look at one."""
    rows = [
        (result.mu_test, name, int(index), _status(ensemble.free_status[k]), _status(ensemble.conditional_status[k]))
        for result in subject.results
        for name, ensemble in result.ensembles.items()
        for k, index in enumerate(ensemble.index)
        if ensemble.failed[k]
    ]
    if not rows:
        return [Note("No toy failed.")]
    poi = subject.store.identity.poi
    more = f" The first {MAX_FAILED_ROWS} of {len(rows)} are listed." if len(rows) > MAX_FAILED_ROWS else ""
    return [
        Note(f"`nsmath toy --hypothesis NAME --index N` with the study's other options draws one and fits it.{more}"),
        table((poi, "hypothesis", "index", "free fit", "conditional fit"), rows[:MAX_FAILED_ROWS]),
    ]


def _status(number: int) -> str:
    from nsmath.fitting.minimiser import FitStatus

    return FitStatus(int(number)).name.lower()


def gaps_section(subject: StoreSubject) -> list[Block]:
    """Toys that are missing before the last one."""
    rows = [
        (mu, name, f"{first} to {last - 1}")
        for mu, name in subject.store.held()
        for first, last in gaps(subject.store, mu, name)
    ]
    return [table((subject.store.identity.poi, "hypothesis", "missing toys"), rows)]


def always(subject: StoreSubject) -> bool:
    """Every store."""
    return True


def with_gaps(subject: StoreSubject) -> bool:
    """Stores with toys missing."""
    return any(_each_gap(subject))


def _each_gap(subject: StoreSubject) -> Iterable[tuple[int, int]]:
    for mu, name in subject.store.held():
        yield from gaps(subject.store, mu, name)


STORE_SECTIONS: tuple[Section, ...] = (
    Section("tests", "Tests", always, tests_section),
    Section("gaps", "Missing toys", with_gaps, gaps_section),
    Section("distributions", "Distributions and convergence", always, distributions_section),
    Section("failed", "Failed toys", always, failed_section),
)
