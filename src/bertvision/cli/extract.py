"""`bertvision extract`: the hidden states of a task's windows into a store."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.cli.output import ProgressBar, print_json, print_table
from bertvision.cli.store_info import describe
from bertvision.cli.task_options import TaskOptions, parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Options of `bertvision extract`."""

    store: Path | None = None
    """Folder of the store, with a folder for each split in it (default: stores/TASK)."""

    keep: Literal["fp16", "bf16", "int8"] = "fp16"
    """How states are kept: int8 takes half the room, at 0.7 % of error instead of 0.02 %. Shards with a value too large
    for fp16 are kept as bf16."""

    layers: str | None = None
    """Which layers to keep, such as 0..6 (default: all)."""

    pool: Literal["cls", "mean"] | None = None
    """Which row stands for a text, for labels, tags and scores, of which one row per text is kept (default: what the
    encoder was trained with)."""

    max_disk: str | None = None
    """Most room that the store may take, such as 20GB; refused before anything is written if it would take more
    (default: what is free)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the computation: 'auto' is bfloat16 on a GPU, float32 elsewhere."""

    compile: bool = False
    """Compile the encoder's layers first: takes a minute, and pays on a GPU when there is much to compute."""

    json: bool = False
    """Print JSON."""


def run(options: Options) -> int:
    """Extract."""
    from bertvision.runs.fitting.extract import ExtractRequest, default_store, extract_states  # noqa: PLC0415 - imports torch
    from bertvision.training.processes import is_main, leave_processes  # noqa: PLC0415

    request = ExtractRequest(
        **options.data_fields(),
        keep=options.keep,
        layers=options.layers,
        pool=options.pool,
        max_disk=parse_size("--max-disk", options.max_disk),
        device=options.device,
        dtype=options.dtype,
        compile=options.compile,
    )
    store = options.store or default_store(options.task)
    with ProgressBar(f"extract {options.task}") as bar:
        manifests = extract_states(request, store, show=bar.show)
    main = is_main()
    leave_processes()
    if not main:
        return 0
    rows = {split: describe(manifest) for split, manifest in manifests.items()}
    if options.json:
        print_json(rows)
        return 0
    print_table(
        f"{store}", ["split", *next(iter(rows.values()))], [[split, *row.values()] for split, row in rows.items()]
    )
    return 0
