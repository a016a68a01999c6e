"""`bertvision export`: write a pack as an ONNX graph, which runs without torch."""

from dataclasses import dataclass
from typing import Literal

from bertvision.cli.output import print_json, print_lines, print_note


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision export`."""

    pack: str
    """Folder of a pack, or its name on the hub."""

    to: Literal["onnx"] = "onnx"
    """Format of the graph."""

    out: str = "exported"
    """Folder for the graph, its tokenizer and its card; an older export there is replaced."""

    int8: bool = False
    """Quantise to 8 bits: faster and a quarter of the size, but some predictions change; the share is reported."""

    data: str | None = None
    """File of the pack's task on which to compare predictions (default: the built-in set of the same form)."""

    examples: int = 200
    """Number of examples on which to compare predictions with PyTorch."""

    encoder: str | None = None
    """Path or name of the pack's encoder (default: the one that the pack names)."""

    json: bool = False
    """Print the details of the export as JSON."""


def run(options: Options) -> int:
    """Export."""
    from bertvision.packs.agreement import TOLERANCE  # noqa: PLC0415
    from bertvision.packs.export import export_pack  # noqa: PLC0415 - imports torch, and help opens at once
    from bertvision.packs.exported import ENOUGH  # noqa: PLC0415
    from bertvision.packs.pack import Pack  # noqa: PLC0415

    exported = export_pack(
        Pack.from_pretrained(options.pack),
        options.out,
        numbers="int8" if options.int8 else "float32",
        data=options.data,
        examples=options.examples,
        encoder=options.encoder,
    )
    export = exported.export
    agreement = export.agreement[exported.runtime]
    if agreement < ENOUGH[export.numbers]:
        print_note(
            f"{1 - agreement:.1%} of the predictions are not those of PyTorch. "
            "Score it before you use it: bertvision predict, bertvision score"
        )
    if options.json:
        print_json(export.as_json() | {"folder": str(exported.folder), "bytes": exported.bytes})
        return 0
    size, allowed = f"{exported.bytes / 1e6:.1f} MB", TOLERANCE * max(1.0, export.largest)
    print_lines(
        [
            f"{exported.folder}: {exported.card.task.name}, {export.numbers}, opset {export.opset}, {size}",
            f"  heads: {', '.join(exported.card.heads)}",
            f"  largest difference from PyTorch in float32: {export.difference:.2g} ({allowed:.2g} is allowed)",
            f"  same predictions as PyTorch, of {export.examples:,} examples ({export.source}), and time of one:",
            *(f"    {name}: {export.agreement[name]:.1%}, {time:.1f} ms" for name, time in export.milliseconds.items()),
            f"  by itself it runs in {exported.runtime} here",
        ]
    )
    return 0
