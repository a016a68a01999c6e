"""`bertvision demo`: the whole workflow on the built-in questions, as the commands that a user would type."""

import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bertvision.atomic import write_text
from bertvision.cli.output import print_lines, print_note
from bertvision.errors import BertVisionError
from bertvision.pack_files import BUILTIN_PACK

if TYPE_CHECKING:
    from bertvision.heads.head import OptionValue

HEADS_FILE = "heads.toml"
SMALLER: Mapping[str, Mapping[str, "OptionValue"]] = {
    **{name: {"filters": (16, 16, 16)} for name in ("conv", "conv_plain", "conv_dilated", "pooled_conv", "mean_conv")},
    **{name: {"filters": (16, 16, 16), "adapter": 64} for name in ("pooled_adapter_conv", "pooled_adapter_ngram")},
    "pooled_adapter_inception": {"adapter": 64, "scale": 0.1},
    "pooled_adapter_xception": {
        "adapter": 64,
        "stem": (8, 16),
        "entry": (32, 32, 64, 64),
        "middle": 1,
        "exit": (64, 128),
    },
}
"""Smaller options for heads with convolutions, whose defaults would take longer than all other heads together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision demo`."""

    out: Path = Path("runs/demo")
    """Folder for all results; runs that are finished there are not repeated."""


def run(options: Options) -> int:
    """Run one command after the other."""
    from bertvision.cli.main import main  # noqa: PLC0415 - would be circular

    begin = time.monotonic()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        write_text(options.out / HEADS_FILE, heads_toml())
    except OSError as error:
        raise BertVisionError(f"--out {options.out} cannot be written ({error}). Use another folder.") from None
    print_note(
        f"convolutions of images would take longer than all other heads: {options.out / HEADS_FILE} has small ones"
    )
    for words in commands(options.out):
        print_lines([f"\n$ bertvision {shlex.join(words)}"])
        code = main(words)
        if code:
            return code
    print_lines([f"\nDone in {time.monotonic() - begin:.0f} s. Look at {options.out / 'report' / 'index.html'}"])
    return 0


def commands(out: Path) -> list[list[str]]:
    """The commands of the demo, in order."""
    data = ["squad2", "--data", "builtin"]
    part = ["--fraction", "0.7", "--held-out", "0.3"]  # so that it takes minutes; tune and fit must split alike
    tuned, fitted, heads = str(out / "tuned"), str(out / "heads"), str(out / HEADS_FILE)
    steps = ["--batch", "8", "--lr", "3e-3"]  # small batches give enough steps on few questions
    return [
        ["tune", *data, "--encoder", BUILTIN_PACK, "--learn", "top:2:strict", *part, "--out", tuned, "--resume"],
        ["fit", *data, "--encoder", tuned, "--heads", heads, *steps, *part, "--out", fitted, "--resume"],
        ["evaluate", fitted],
        ["ensemble", fitted, "--how", "greedy"],
        ["analyse", fitted],
        ["report", tuned, fitted, "--out", str(out / "report")],
    ]


def heads_toml() -> str:
    """The TOML file for `--heads` with every head for questions, some made smaller."""
    from bertvision.heads import HEADS  # noqa: PLC0415 - imports torch
    from bertvision.runs.fitting.head_specs import fits_kind  # noqa: PLC0415

    lines = []
    for name in HEADS:
        if fits_kind(name, "spans"):
            lines += ["[[head]]", f'head = "{name}"']
            # numbers and lists of numbers look the same in TOML and JSON
            lines += [f"options.{key} = {json.dumps(value)}" for key, value in SMALLER.get(name, {}).items()]
            lines.append("")
    return "\n".join(lines)
