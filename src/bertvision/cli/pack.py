"""`bertvision pack`: save the changes to a run's encoder, its heads and its threshold in one small folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.amounts import in_bytes
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision pack`."""

    run: str
    """Finished run: RUN of fit, or RUN or RUN@0.3 (a snapshot) of tune."""

    out: str = "pack"
    """Folder for the pack; an older pack there is replaced."""

    heads: str = "best"
    """Heads to include: 'best' on held-out training examples, or names separated by commas; several are averaged."""

    keep: Literal["float16", "float32"] = "float16"
    """Number format of the stored weights."""

    licence: str | None = None
    """Licence of the pack, as the Hugging Face hub writes it, such as cc-by-sa-4.0 (default: mit, or the licence of the
    pack that was tuned further, for the built-in sets; other elsewhere)."""

    data: str | None = None
    """Data set with the split whose scores the card states (default: the data of the run)."""

    split: str = "dev"
    """Split whose scores the card states; the no-answer threshold is fitted on training questions that the run held
    out. If the data are a single training file, labels and scores are scored on what the run held out of it."""

    push: str | None = None
    """Also upload the pack to the Hugging Face hub, as user/name."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

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
        f"{pack.folder}: {card.task.name} over {card.encoder}, {in_bytes(pack.bytes)}",
        f"  changed in the encoder: {', '.join(card.learn) or 'nothing'}; heads: {', '.join(card.heads)}",
        f"  {result.split}: {values}",
    ]
    if card.threshold is not None:
        lines.append(f"  no-answer threshold: {card.threshold:.4g}")
    print_lines([*lines, *([] if address is None else [f"  {address}"])])
    return 0
