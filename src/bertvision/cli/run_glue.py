"""`bertvision run glue`: tune, fit and evaluate for every GLUE task, in one table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bertvision.amounts import in_words
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes, print_table
from bertvision.errors import BertVisionError
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.windows import WindowOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision run glue`."""

    data: str | None = None
    """Folder with CoLA, SST-2, MRPC … in the official layout; tasks without data are listed and left out. Required."""

    skip_bad: bool = False
    """Skip rows that cannot be read, and report how many and why, instead of stopping."""

    windows: WindowOptions = field(default_factory=WindowOptions)

    encoder: str = BUILTIN_ENCODER
    """Encoder: 'minilm', a local folder, a name on the hub, a tuned run (RUN, or RUN@0.3 for a snapshot), a pack's
    folder, or 'qa-minilm', the included pack."""

    learn: str = "lora:16"
    """Parameters of the encoder to train, for each task separately; 'none' leaves it unchanged."""

    epochs: float = 0.3
    """Passes over the training examples when tuning."""

    lr: float | None = None
    """Learning rate of the encoder (default: as for 'bertvision tune')."""

    batch: int = 32
    """Batch size of tuning: windows per optimiser step."""

    heads: str = "last_layer,layer_concat,layer_mix,adapter_pool"
    """Heads to train: 'all' that are valid for the task, names separated by commas, or a TOML file; the best on
    held-out examples is reported."""

    head_epochs: float = 3.0
    """Passes over the training examples for heads; not used for convex heads, which are solved."""

    fraction: float = 1.0
    """Share of the training examples to use."""

    held_out: float = 0.1
    """Share of the training examples to hold out for validation: to select the head, never to train."""

    seed: int = 0
    """Random seed of data order, held-out examples and initial weights."""

    bootstrap: int = 1000
    """Bootstrap resamples for the intervals and tests in each task's own record."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of computation; 'auto' is bfloat16 on a GPU and float32 elsewhere."""

    out: Path = Path("runs/glue")
    """Folder for the runs, one folder per task. The same command resumes where it stopped."""

    json: bool = False
    """Print the content of glue.json."""


def run(options: Options) -> int:
    """Run."""
    if options.data is None:
        raise BertVisionError("--data DIR is missing: the folder with CoLA, SST-2, MRPC and so on.")
    from bertvision.runs.searching.glue import GlueRequest, run_glue  # noqa: PLC0415 - imports torch, and help should open at once
    from bertvision.training.options import TuneOptions  # noqa: PLC0415

    request = GlueRequest(
        data=options.data,
        skip_bad=options.skip_bad,
        windows=options.windows,
        encoder=options.encoder,
        learn=options.learn,
        tuning=TuneOptions(epochs=options.epochs, lr=options.lr, batch=options.batch, seed=options.seed),
        heads=options.heads,
        head_epochs=options.head_epochs,
        fraction=options.fraction,
        held_out=options.held_out,
        resamples=options.bootstrap,
        device=options.device,
        dtype=options.dtype,
    )
    with ProgressBar("glue") as bar:
        result = run_glue(request, options.out, show=bar.show)
    print_notes(result.notices)
    if options.json:
        print_json(result.record)
    else:
        _print(result.out, result.record)
    return 0


def _print(out: Path, record: Mapping[str, Any]) -> None:
    rows: list[list[object]] = [
        [
            row["task"],
            row["examples"]["dev"],
            " / ".join(row["best"]["values"]),
            row["best"]["name"].partition("-")[2],
            _values(row["best"]),
            row["best"]["mean"],
            _values(row["own"]),
        ]
        for row in record["tasks"]
    ]
    own = record["own_average"]
    rows.append(["average", None, "", "", "", record["average"], "" if own is None else f"{own:.1f}"])
    title = f"{out}: {in_words(len(record['tasks']), 'GLUE task')}, {record['encoder']}, --learn {record['learn']}"
    print_table(title, ["task", "dev", "metrics", "head", "on dev, %", "mean", "own output, %"], rows)
    if record["missing"]:
        print_lines([f"Missing: {', '.join(f'{name} ({reason})' for name, reason in record['missing'].items())}"])


def _values(scores: Mapping[str, Any] | None) -> str:
    return "" if scores is None else " / ".join(f"{value:.1f}" for value in scores["values"].values())
