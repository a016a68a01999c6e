"""Write the generated tables into README and docs, between their marks, and the plots of suites."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from bertvision.amounts import in_bytes, in_seconds
from bertvision.atomic import write_text
from bertvision.bench.checks import BERT_LARGE as LARGE_SHAPE
from bertvision.bench.checks import PARAMETERS, cost_checks
from bertvision.bench.compare import Measured, measured_cells
from bertvision.bench.cost import learning_of
from bertvision.bench.estimate import CostEstimate, Work, estimate
from bertvision.bench.hardware import HARDWARE
from bertvision.bench.lengths import SQUAD_WINDOWS, squad_lengths
from bertvision.bench.plot import curve_plots
from bertvision.bench.results import open_results
from bertvision.bench.sentence_table import sentences_markdown
from bertvision.bench.suite import load_suite
from bertvision.bench.tables import suite_markdown
from bertvision.cli.ls import BERT_LARGE, reference_parameters
from bertvision.encoder.learn import parse_learn
from bertvision.errors import BertVisionError
from bertvision.heads import HEADS
from bertvision.training.options import default_rate
from claims_of_spans import claims_table, head_claims_table
from markdown_tables import table
from tables_of_answers import MINILM_ANSWERS, answers_table
from tables_of_documents import DOCUMENT_TABLES
from tables_of_goals import ablation_table, curve_table, goals_table
from tables_of_heads import documents_table, ensembles_table
from tables_of_readme import PROMISES, RIVAL_CELLS, promises_table, rivals_table
from tables_of_spans import SPAN_TABLES
from tables_of_speed import limits_table, loops_table, size_table, speed_table
from tables_of_tasks import distances_table, glue_table, grid_table, multitask_claims, multitask_tables

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PLOTS = DOCS / "plots"
RIVALS_PLOT = PLOTS / "rivals.svg"
LEGEND = "Solid lines are ours, dashed ones the plain loop; marks are snapshots, bands the range over seeds."


def quality_table() -> str:
    """F1 for each `--learn`, at the learning rate with the best held-out score; means over all runs at that rate.

    Only the suite `tuning` chooses, which has every rate with the same seed: other seeds hold out other examples.
    """
    rows = []
    runs = tuning_runs()
    for learn in sorted({run["learn"] for run in runs}):
        of_learn = [run for run in runs if run["learn"] == learn]
        held_out: dict[float, list[float]] = {}
        for run in of_learn:
            if run["suite"] == "tuning":
                held_out.setdefault(run["lr"], []).append(run["held_out"])
        rate = max(held_out, key=lambda rate: fmean(held_out[rate]))
        chosen = [run for run in of_learn if run["lr"] == rate]
        values = [f"{fmean(run[at] for run in chosen):.1f}" for at in ("zero", "fitted", "best")]
        size = f"{chosen[0]['bytes'] / 1e6:,.0f} MB"
        rows.append((learn, f"{rate:g}", f"{len(held_out)}", f"{len(chosen)}", *values, size))
    header = ("what learns", "rate", "of", "runs", "F1, threshold 0", "fitted", "best on dev", "bytes kept")
    return table(header, rows)


def tuning_runs() -> list[dict[str, Any]]:
    """All runs of the suite `tuning`, and those of `rival` that differ only in learning rate and snapshots."""
    tuning, rival = (suite_record(name) for name in ("tuning", "rival"))

    def other_settings(cell: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in cell["settings"].items() if name not in {"lr", "snapshots"}}

    planned = [other_settings(cell) for cell in tuning["plan"]]
    runs = []
    for suite, cell in [(one["suite"], cell) for one in (tuning, rival) for cell in one["cells"].values()]:
        *_, model = cell["result"]["models"].values() or [None]
        settings = cell["settings"]
        # a cell without a model diverged
        if model is None or cell["kind"] != "tune" or other_settings(cell) not in planned:
            continue
        names = {"zero": "zero", "fitted": "fitted", "best": "best_on_split"}
        scores = {at: model["scores"][name]["f1"] for at, name in names.items()}
        rate = settings["lr"] or default_rate(settings["learn"])
        runs.append(
            {
                "suite": suite,
                "learn": settings["learn"],
                "lr": rate,
                **scores,
                "held_out": model["held_out"],
                "bytes": model["bytes"],
            }
        )
    return runs


def heads_table() -> str:
    """All heads, their parameters, and the time of a step as a share of the encoder's forward pass, if measured."""
    measured = {}
    for device in ("cpu", "gpu"):
        path = ROOT / "results" / f"heads-{device}.json"
        record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"heads": []}
        measured[device] = {row["head"]: row for row in record["heads"]}
    rows = []
    for name, entry in HEADS.items():
        parameters = reference_parameters(name)
        only = "" if "spans" in entry.kinds else f" ({', '.join(entry.kinds)} only)"
        costs = [f"{found[name]['share']:.1%}" if name in found else "" for found in measured.values()]
        share = f"{parameters / BERT_LARGE:.4%}"
        rows.append((f"`{name}`", entry.document, f"{parameters:,}", share, f"{entry.summary}{only}", *costs))
    return table(("head", "from", "parameters", "share", "what it computes", "step, CPU", "step, GPU"), rows)


def checks_table() -> str:
    """Predictions of the cost model beside measured values."""
    rows = []
    for check in cost_checks(ROOT / "results"):
        what = f"[{check.what}](../results/{check.record}.json)"
        measured, predicted = (
            "" if value is None else in_bytes(value) if check.unit == "bytes" else f"{value:.3g} {check.unit}"
            for value in (check.measured, check.predicted)
        )
        off = "fitted here" if check.error is None else f"{check.error:+.1%}"
        rows.append((what, measured, predicted, f"**{off}**: {check.known_miss}" if check.known_miss else off))
    return table(("measured", "found", "said", "off by"), rows)


SCALES = {SQUAD_WINDOWS: (1, 8, 64), 10**8: (8, 64)}
"""Numbers of windows, and the numbers of GPUs for which their cost is estimated."""


@cache
def cost(windows: int) -> CostEstimate:
    """Estimated cost of BERT-large with `--learn full` for an epoch."""
    learning = learning_of(parse_learn("full"), LARGE_SHAPE, PARAMETERS[LARGE_SHAPE])
    work = Work(shape=LARGE_SHAPE, sample=squad_lengths(), windows=windows, learning=learning, learn="full")
    return estimate(work, HARDWARE["h200"], SCALES[windows])


def scale_table() -> str:
    """Estimated time and price of SQuAD 2.0 and of 100 million passages with BERT-large."""
    rows = []
    for windows in SCALES:
        for row in cost(windows).rows:
            time, hours = in_seconds(row.seconds), f"{row.gpu_hours:,.4g}"
            dollars, waiting = f"{2.5 * row.gpu_hours:,.2f}", f"{row.waiting:.1%}"
            rows.append((f"{windows:,}", row.what, f"{row.gpus}", time, hours, dollars, waiting))
    return table(("windows", "what", "GPUs", "time", "GPU-hours", "dollars at 2.50", "waiting"), rows)


def bytes_table() -> str:
    """Estimated bytes on disk of the same."""
    rows = [(kept, *(in_bytes(cost(windows).bytes[kept]) for windows in SCALES)) for kept in cost(SQUAD_WINDOWS).bytes]
    return table(("states of all layers", *(f"{windows:,} windows" for windows in SCALES)), rows)


@cache
def suite_record(name: str, folder: Path = ROOT / "results") -> dict[str, Any]:
    """The record of a suite with the current plan of its file, which may have changed since the record was written."""
    suite, path = load_suite(ROOT / "experiments" / f"{name}.toml"), folder / f"{name}.json"
    return open_results(path, suite).as_json()


def suite_tables(name: str) -> str:
    """The record of a suite as Markdown, or how to measure it."""
    path = ROOT / "results" / f"{name}.json"
    if not path.exists():
        return f"Not measured yet: `bertvision bench {name} --data DIR`"
    words = "quality against seconds of training"
    plots = [f"![{plot.stem}: {words}]({plot.relative_to(DOCS)})" for plot in suite_plots(name)]
    parts = [suite_markdown(suite_record(name)), *plots, *([LEGEND] if plots else [])]
    return "\n\n".join([*parts, f"[Record](../results/{path.name})"])


def sentences_tables() -> str:
    """The record of the suite of sentences as Markdown, or that of its short trial, or how to measure it."""
    for folder, what in ((ROOT / "results", "Record"), (ROOT / "results" / "trial", "Record of a trial")):
        path = folder / f"{SENTENCES}.json"
        if path.exists():
            tables = sentences_markdown(suite_record(SENTENCES, folder))
            return f"{tables}\n\n[{what}](../{path.relative_to(ROOT)})"
    return f"Not measured yet: `bertvision bench {SENTENCES} --data DIR`"


def suite_plots(name: str) -> dict[Path, str]:
    """The plots of a suite's record, by file name."""
    path = ROOT / "results" / f"{name}.json"
    found = curve_plots(suite_record(name)) if path.exists() else {}
    return {PLOTS / f"{name}-{what.replace('/', '-')}.svg": drawn for what, drawn in found.items()}


def all_plots() -> dict[Path, str]:
    """All plots by file: those of the suites, and that of the README."""
    found = {path: drawn for name in SUITES for path, drawn in suite_plots(name).items()}
    [readme] = curve_plots(suite_record("rival"), RIVAL_CELLS).values()
    return found | {RIVALS_PLOT: readme}


def of_rivals() -> str:
    """The README's table and plot of ours beside the usual alternatives."""
    table = of_suites(rivals_table, "rival")
    words = "F1 against seconds of training: our curves rise to the left of those of the plain loops"
    return f"{table}\n\n![{words}]({RIVALS_PLOT.relative_to(ROOT)})\n\n{LEGEND}"


SENTENCES = "sentences"
"""The suite whose tables are on a page of their own."""

SUITES = sorted(path.stem for path in (ROOT / "experiments").glob("*.toml") if path.stem not in ("smoke", SENTENCES))
"""Suites whose tables are published; the smoke test of the benchmarks has none."""

BENCHMARKS, BESIDE_DOCUMENTS, RECORDS = (f"docs/benchmarks{name}.md" for name in ("", "-documents", "-records"))

SUITE_PAGES = {"classes": "docs/benchmarks-sentences.md"}
"""Pages of the suites whose records are not on the page of records."""


def of_record(name: str, make: Callable[[Mapping[str, Any]], str]) -> str:
    """The tables that `make` writes from a record, with a link to the record."""
    path = Path("results") / f"{name}.json"
    return f"[The record](../{path.as_posix()}).\n\n{make(json.loads((ROOT / path).read_text(encoding='utf-8')))}"


def of_suites(make: Callable[[Sequence[Measured]], str], *names: str) -> str:
    """The tables that `make` writes from the cells of some suites."""
    records = [suite_record(name) for name in names]
    return make([cell for record in records for cell in measured_cells(record)])


def of_promises() -> str:
    """The README's table of targets, from the records."""
    found = {row.record: ROOT / "results" / f"{row.record}.json" for row in PROMISES}
    return promises_table({name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items()})


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "rivals": ("README.md", of_rivals),
    "promises": ("README.md", of_promises),
    "speed": ("docs/speed.md", speed_table),
    "size": ("docs/speed.md", size_table),
    "loops": ("docs/speed.md", partial(of_suites, loops_table, "rival")),
    "limits": ("docs/speed.md", limits_table),
    "answers": (BENCHMARKS, partial(of_suites, answers_table, "rival", "heads")),
    "answers of MiniLM": (BENCHMARKS, partial(of_suites, partial(answers_table, answers=MINILM_ANSWERS), "rival")),
    "goals": (BENCHMARKS, partial(of_suites, goals_table, "heads", "rival", "sentences")),
    "equal seconds": (BENCHMARKS, partial(of_suites, curve_table, "rival")),
    "ablation": (BENCHMARKS, partial(of_suites, ablation_table, "rival")),
    "quality": (BENCHMARKS, quality_table),
    "heads": ("docs/heads.md", heads_table),
    **{name: ("docs/analysis.md", make) for name, make in SPAN_TABLES.items()},
    "head claims": ("docs/analysis.md", partial(of_suites, head_claims_table, "heads")),
    "span claims": ("docs/analysis.md", claims_table),
    "span ensembles": ("docs/evaluation.md", partial(of_suites, ensembles_table, "heads")),
    "heads beside documents": (BESIDE_DOCUMENTS, partial(of_suites, documents_table, "heads")),
    **{
        name: (BESIDE_DOCUMENTS, partial(of_suites, make, "freezing", "documents", "heads"))
        for name, make in DOCUMENT_TABLES.items()
    },
    "cost checks": ("docs/scale.md", checks_table),
    "scale": ("docs/scale.md", scale_table),
    "bytes": ("docs/scale.md", bytes_table),
    **{f"suite {name}": (SUITE_PAGES.get(name, RECORDS), partial(suite_tables, name)) for name in SUITES},
    f"suite {SENTENCES}": ("docs/benchmarks-sentences.md", sentences_tables),
    "multitask claims": ("docs/multitask.md", partial(of_record, "multitask-cs224n", multitask_claims)),
    "multitask": ("docs/multitask.md", partial(of_record, "multitask-cs224n", multitask_tables)),
    "grid": ("docs/multitask.md", partial(of_record, "multitask-grid", grid_table)),
    "distances": ("docs/multitask.md", partial(of_record, "triplet-distances", distances_table)),
    "glue": (BENCHMARKS, partial(of_record, "glue-mpnet", glue_table)),
}
"""By name: the file that contains a table, and the function that makes it."""


def with_tables(document: str, text: str) -> str:
    """A document's text with its tables replaced by those of the current records.

    Raises:
        BertVisionError: a table has no place in the text, or no end there.
    """
    for name, (place, make) in TABLES.items():
        if place == document:
            begin, end = f"<!-- {name} table: written by bench/table.py -->", f"<!-- end of {name} table -->"
            before, begun, rest = text.partition(begin)
            _, ended, after = rest.partition(end)
            if not begun or not ended:
                raise BertVisionError(f"{document} lacks a mark of the table '{name}': {begin} … {end}")
            text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return text


def main() -> None:
    """Rewrite the documents, and draw the plots."""
    for path, drawn in all_plots().items():
        write_text(path, drawn)
    for document in sorted({place for place, _ in TABLES.values()}):
        path = ROOT / document
        write_text(path, with_tables(document, path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
