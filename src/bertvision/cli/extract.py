"""`bertvision extract`: write the hidden states of a task's windows to a store."""

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
    """Folder for the store, with one folder per split in it (default: stores/TASK)."""

    keep: Literal["fp16", "bf16", "int8"] = "fp16"
    """Number format of the stored states: int8 takes half the space, at an error of 0.7 % instead of 0.02 %. Shards
    with a value too large for fp16 are stored as bf16."""

    layers: str | None = None
    """Layers to store, such as 0..6; 0 is the embedding output (default: all)."""

    pool: Literal["cls", "mean"] | None = None
    """How a text becomes the one vector per layer that is stored for labels, tags and scores: 'cls' takes that of the
    first token, 'mean' the mean over tokens (default: as the encoder was trained)."""

    max_disk: str | None = None
    """Most disk space for the store, such as 20GB; a store that would need more is refused before anything is written
    (default: the free space)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of computation; 'auto' is bfloat16 on a GPU and float32 elsewhere."""

    compile: bool = False
    """Compile the encoder's layers first. This takes a minute and pays off on a GPU when there is much to compute."""

    json: bool = False
    """Print what the store holds as JSON."""


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
