"""`bertvision run glue`: all GLUE tasks at once."""

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
    """A folder with CoLA, SST-2, MRPC … in the official layout; tasks without data are named, and left out. It must be
    given."""

    skip_bad: bool = False
    """Leave out rows that cannot be read, and tell how many and why, instead of stopping."""

    windows: WindowOptions = field(default_factory=WindowOptions)

    encoder: str = BUILTIN_ENCODER
    """'minilm', a local folder, a name on the hub, a tuned run (RUN or RUN@0.3), or a pack: its folder, or
    'qa-minilm' for the shipped one."""

    learn: str = "lora:16"
    """What of the encoder learns, for each task by itself; 'none' leaves it as it is."""

    epochs: float = 0.3
    """Passes over the data while tuning."""

    lr: float | None = None
    """Learning rate of the encoder (default: as for 'bertvision tune')."""

    batch: int = 32
    """Windows per step of tuning."""

    heads: str = "last_layer,layer_concat,layer_mix,adapter_pool"
    """'all' that fit a task, names between commas, or a TOML file; the best by held-out examples is reported."""

    head_epochs: float = 3.0
    """Passes over the data for heads that are trained; convex ones are solved."""

    fraction: float = 1.0
    """Share of the training examples to use."""

    held_out: float = 0.1
    """Share of the training examples that nobody learns from: they choose the head."""

    seed: int = 0
    """Of data order, held-out examples and first weights."""

    bootstrap: int = 1000
    """Resamples for the intervals and tests in the tasks' own records."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the computation: 'auto' is bfloat16 on a GPU, float32 elsewhere."""

    out: Path = Path("runs/glue")
    """Folder of the runs, one for each task. The same command goes on where it stopped."""

    json: bool = False
    """Print what glue.json holds."""


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
