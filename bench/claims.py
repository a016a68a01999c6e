"""Markdown tables of the documents' figures and claims beside our measurements, and whether the claims hold."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bertvision.bench.compare import Measured, find_model
from bertvision.bench.tables import which_way
from bertvision.runs.judging.judge import FITTED, PLAIN, ZERO
from markdown_tables import table
from tables_of_heads import against, scores_of
from verdicts import Says, verdict


class Figure(NamedTuple):
    """A figure in a document, and our model that corresponds to it.

    Attributes:
        what: description.
        there: the document's figure.
        model: `CELL:MODEL`, or a cell that has one model.
    """

    what: str
    there: str
    model: str


class Claim(NamedTuple):
    """A document's comparison of two models, and our models that correspond to them.

    Attributes:
        what: description.
        there: the document's difference.
        first, second: our models.
        says: the direction that the document claims; None if it claims none.
    """

    what: str
    there: str
    first: str
    second: str
    says: Says | None


Row = Sequence[str]
HERE = {ZERO: "here, threshold 0", FITTED: "here, fitted", PLAIN: "here"}


def missing(cells: Sequence[Measured], models: Iterable[str]) -> list[str]:
    """Names of the cells of models that are not measured."""
    return list(dict.fromkeys(one.partition(":")[0] for one in models if find_model(cells, one) is None))


def figure_rows(cells: Sequence[Measured], figures: Iterable[Figure], at: Sequence[str]) -> list[Row]:
    """Rows of a document's figures and our scores; figures without measured model are left out."""
    models = [(one, find_model(cells, one.model)) for one in figures]
    return [(one.what, one.there, *scores_of(*model, at)) for one, model in models if model is not None]


def claim_row(cells: Sequence[Measured], one: Claim, at: Sequence[str]) -> Row:
    """Row of a document's difference, ours, and whether the claim holds; labels have one difference, no threshold."""
    comparison = against(cells, one.first, one.second)
    judged = "" if one.says is None else verdict([comparison.sure], one.says)
    return (one.what, one.there, *comparison.cells[-len(at) :], which_way(comparison.fitted), judged)


def beside(
    cells: Sequence[Measured],
    figures: Sequence[Figure],
    claims: Sequence[Claim],
    more: Sequence[Row] = (),
    at: Sequence[str] = (ZERO, FITTED),
) -> str:
    """Tables of the measured figures, and of the measured claims with the rows `more`; then names of missing cells."""
    here = [HERE[which] for which in at]
    shown = figure_rows(cells, figures, at)
    judged = [claim_row(cells, one, at) for one in claims if not missing(cells, (one.first, one.second))]
    models = [one.model for one in figures] + [side for one in claims for side in (one.first, one.second)]
    absent = ", ".join(f"`{name}`" for name in missing(cells, models))
    parts = [table(("what", "there", *here), shown)] if shown else []
    if judged or more:
        heading = "the document says" if more or any(one.says for one in claims) else "compared"
        parts.append(table((heading, "there", *here, "here is", "the claim"), [*judged, *more]))
    return "\n\n".join([*parts, *([f"Not measured yet: {absent}."] if absent else [])])
