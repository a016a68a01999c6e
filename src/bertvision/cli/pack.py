"""`bertvision pack`: a run in, a folder of a few megabytes out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision pack`."""

    run: str
    """A finished run: RUN of fit, RUN or RUN@0.3 of tune."""

    out: str = "pack"
    """Folder of the pack; an older pack there is replaced."""

    heads: str = "best"
    """'best' by held-out training examples, or names between commas; of several the mean counts."""

    keep: Literal["float16", "float32"] = "float16"
    """How numbers are stored."""

    licence: str | None = None
    """Of the pack, as the Hugging Face hub writes it, such as cc-by-sa-4.0 (default: mit for the built-in sets, other
    elsewhere)."""

    data: str | None = None
    """Where the split is whose scores the card states (default: the data of the run)."""

    split: str = "dev"
    """Which split that is; the no-answer threshold is fitted on training questions that the run held out. Where the
    data are one file to learn from, labels and scores are judged by what the run held out of it."""

    push: str | None = None
    """Put the pack on the Hugging Face hub, too, as user/name."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    json: bool = False
    """Print the pack's card as JSON."""


def run(options: Options) -> int:
    """Pack."""
    from bertvision.packs.make import make_pack  # noqa: PLC0415 - imports torch, and help should open at once

    with ProgressBar(f"pack {options.run}") as bar:
        result = make_pack(
            options.run,
            out=Path(options.out),
            heads=options.heads,
            keep=options.keep,
            licence=options.licence,
            data=options.data,
            split=options.split,
            device=options.device,
            show=bar.show,
        )
    print_notes(result.notices)
    pack = result.pack
    address = None if options.push is None else pack.push_to_hub(options.push)
    if options.json:
        print_json(pack.card.as_json() | {"folder": str(pack.folder), "bytes": pack.bytes, "address": address})
        return 0
    card = pack.card
    values = ", ".join(f"{name} {value:.4g}" for name, value in card.scores.items() if value is not None)
    lines = [
        f"{pack.folder}: {card.task.name} over {card.encoder}, {pack.bytes / 1e6:.2f} MB",
        f"  changed in the encoder: {', '.join(card.learn) or 'nothing'}; heads: {', '.join(card.heads)}",
        f"  {result.split}: {values}",
    ]
    if card.threshold is not None:
        lines.append(f"  no-answer threshold: {card.threshold:.4g}")
    print_lines([*lines, *([] if address is None else [f"  {address}"])])
    return 0
