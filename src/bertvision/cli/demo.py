"""`bertvision demo`: the main job on the built-in questions, as the commands that a user would type."""

import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from bertvision.cli.output import print_lines, print_note


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision demo`."""

    out: Path = Path("runs/demo")
    """Folder of everything that it makes; what is finished there is not done again."""


def run(options: Options) -> int:
    """Run one command after the other."""
    from bertvision.cli.main import main  # noqa: PLC0415 - it imports this module

    begin = time.monotonic()
    print_note("all heads but convolutions of images, which take longer than all others together; fit has them, too")
    for words in commands(options.out):
        print_lines([f"\n$ bertvision {shlex.join(words)}"])
        code = main(words)
        if code:
            return code
    print_lines([f"\nDone in {time.monotonic() - begin:.0f} s. Look at {options.out / 'report' / 'index.html'}"])
    return 0


def commands(out: Path) -> list[list[str]]:
    """What the demo runs, in order."""
    from bertvision.heads import HEADS  # noqa: PLC0415 - imports torch
    from bertvision.heads.conv import Conv  # noqa: PLC0415
    from bertvision.heads.inception import Inception  # noqa: PLC0415
    from bertvision.heads.xception import Xception  # noqa: PLC0415
    from bertvision.runs.head_specs import fits_kind  # noqa: PLC0415

    slow = {Conv, Inception, Xception}
    heads = [name for name, entry in HEADS.items() if fits_kind(name, "spans") and entry.head not in slow]
    data = ["squad2", "--data", "builtin"]
    part = ["--fraction", "0.5", "--held-out", "0.1"]  # enough to see it work in minutes, and the same for both
    tuned, fitted = str(out / "tuned"), str(out / "heads")
    return [
        ["tune", *data, "--encoder", "minilm", "--learn", "top:2:strict", *part, "--out", tuned, "--resume"],
        ["fit", *data, "--encoder", tuned, "--heads", ",".join(heads), *part, "--out", fitted, "--resume"],
        ["evaluate", fitted],
        ["ensemble", fitted, "--how", "greedy"],
        ["analyse", fitted],
        ["report", tuned, fitted, "--out", str(out / "report")],
    ]
