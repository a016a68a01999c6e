"""`bertvision search`: search for the best head, or the best way to tune for one or several tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertvision.amounts import in_words
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes, print_table
from bertvision.cli.task_options import TaskOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Options of `bertvision search`."""

    task: str
    """Name of a task, or several separated by commas if the space is of kind multitask; 'bertvision ls tasks' lists
    them."""

    space: Path | None = None
    """TOML file with the search space; see docs/search.md. Required."""

    trials: int = 20
    """Number of trials in all, over all processes. A larger number extends a finished search."""

    storage: str | None = None
    """Database for a search on several machines, such as postgresql://USER@HOST/NAME; put the password into PGPASSWORD
    or ~/.pgpass (default: an SQLite file in the folder of the search, which several processes can share)."""

    study: str | None = None
    """Name of the search in the database (default: the name of the task)."""

    jobs: int = 1
    """Number of processes on this machine."""

    epochs: float = 1.0
    """Passes over the training examples for a trial that is never pruned."""

    batch: int = 32
    """Batch size: windows per optimiser step, unless the search space sets it."""

    rungs: int = 3
    """Number of rungs: points at which trials are scored and, at all but the last, the worst are pruned. 1 prunes
    nothing."""

    reduction: int = 3
    """At each rung but the last, only the best 1/N of the trials continue."""

    together: int = 10
    """Most heads to train in one pass; after each pass, its results guide what is tried next."""

    fraction: float = 1.0
    """Share of the training examples to use."""

    held_out: float = 0.1
    """Share of the training examples to hold out for validation: to score all trials, never to train. The dev set is
    used once, at the end, for the best trial."""

    pool: Literal["cls", "mean", "attention"] | None = None
    """How a text becomes one vector, for labels, tags and scores: 'cls' takes that of the first token, 'mean' the mean
    over tokens; 'attention' lets each head learn which tokens count (default: as the encoder was trained)."""

    pairs: Literal["auto", "together", "apart", "aligned"] = "auto"
    """For heads, how to encode the two texts of a pair: 'together' as one window; 'apart', compared as wholes; or
    'aligned', also compared token by token. 'auto' takes 'aligned' for encoders trained on sentences, 'together' for
    others."""

    from_: str = "stream"
    """For heads, where hidden states come from: 'stream' runs the encoder, 'store:DIR' reads a store written by
    extract."""

    train_all: bool = False
    """Train convex heads by gradient steps like the others, instead of solving them."""

    seed: int = 0
    """Random seed of data order, held-out examples, initial weights and the choice of trials; it is never searched."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of computation; 'auto' is bfloat16 on a GPU and float32 elsewhere."""

    out: Path | None = None
    """Folder for the search (default: runs/TASK-search). The same command continues an interrupted search."""

    json: bool = False
    """Print the content of trials.json."""


def run(options: Options) -> int:
    """Search."""
    from bertvision.errors import BertVisionError  # noqa: PLC0415

    if options.space is None:
        raise BertVisionError("--space FILE.toml is missing: it says what to choose from. See docs/search.md.")
    from bertvision.runs.searching.search import SearchPlace, search  # noqa: PLC0415 - imports torch and optuna
    from bertvision.runs.searching.search_file import load_space  # noqa: PLC0415
    from bertvision.runs.searching.search_request import SearchRequest  # noqa: PLC0415

    request = SearchRequest(
        **options.data_fields(),
        space=load_space(options.space),
        epochs=options.epochs,
        batch=options.batch,
        rungs=options.rungs,
        reduction=options.reduction,
        together=options.together,
        fraction=options.fraction,
        held_out=options.held_out,
        seed=options.seed,
        pool=options.pool,
        pairs=options.pairs,
        source=options.from_,
        solve=not options.train_all,
        device=options.device,
        dtype=options.dtype,
    )
    place = SearchPlace(
        out=options.out or Path("runs") / f"{'+'.join(request.tasks)}-search",
        trials=options.trials,
        storage=options.storage,
        study=options.study,
        jobs=options.jobs,
    )
    with ProgressBar(f"search {options.task}") as bar:
        result = search(request, place, show=bar.show)
    print_notes(result.notices)
    if options.json:
        print_json(result.record)
    else:
        _print(result.out, result.record)
    return 0


def _print(out: Path, record: Mapping[str, Any]) -> None:
    """Print every trial, best first, the importance of parameters, and the best trial's scores on dev."""

    def order(row: Mapping[str, Any]) -> tuple[bool, float]:
        return row["state"] != "complete", -(row["value"] if row["value"] is not None else float("-inf"))

    names = list(dict.fromkeys(name for row in record["trials"] for name in row["parameters"] if "." not in name))
    rows = [
        [row["trial"], row["state"], row["value"], len(row["rungs"]), row["seconds"]]
        + [row["parameters"].get(name) for name in names]
        + [_options(row["parameters"])]
        for row in sorted(record["trials"], key=order)
    ]
    title = f"{out}: {in_words(len(rows), 'trial')}, best first by {record['objective']}"
    print_table(title, ["trial", "state", "value", "rungs", "seconds", *names, "options"], rows)
    for group, shares in record["importance"].items():
        listed = ", ".join(f"{name.removeprefix(f'{group}.')} {share:.0%}" for name, share in shares.items())
        print_lines([f"Parameter importance {'in all trials' if group == 'all' else f'for {group}'}: {listed}"])
    best = record["best"]
    if best is not None and best["dev"] is not None:
        scores = ", ".join(f"{name} {_short(value)}" for name, value in best["dev"].items())
        print_lines([f"Trial {best['trial']} is in {out / 'best'}; on dev: {scores or 'there is none'}"])


def _options(parameters: Mapping[str, Any]) -> str:
    """The parameters of a trial with a dot in their name: options of its head, and settings of single tasks."""
    own = f"{parameters.get('head')}."
    return " ".join(f"{name.removeprefix(own)}={_short(value)}" for name, value in parameters.items() if "." in name)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
