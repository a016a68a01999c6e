"""open_pack: a name → a pack, exported or not; load_reader: packs → a `Reader` that runs them."""

from pathlib import Path
from typing import Literal

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.packs.exported import ExportedPack
from bertvision.packs.pack_folder import PackFolder, is_exported, locate_pack
from bertvision.packs.reader import Reader

Runtime = Literal["auto", "torch", "onnx", "openvino", "openvino-bf16"]
"""What computes a pack: `auto` takes PyTorch for packs that were not exported; for exported ones ONNX Runtime, or
OpenVINO if it is installed, was clearly faster at export, and its predictions agreed with PyTorch's."""


def open_pack(name: str | Path | None = None, *, runtime: Runtime = "auto") -> PackFolder:
    """Open a pack by its folder or by its name on the Hugging Face hub; None opens the one of the installation.

    For an exported pack torch is not imported.

    Raises:
        BertVisionError: there is no such pack, it cannot be read, or it does not run in that runtime.
    """
    folder = locate_pack(name)
    if is_exported(folder):
        if runtime == "torch":
            raise BertVisionError(
                f"the pack {folder} was exported, and PyTorch does not read it. Name the pack it was made of."
            )
        return ExportedPack.load(folder, runtime=None if runtime == "auto" else runtime)
    if runtime not in ("auto", "torch"):
        raise BertVisionError(
            f"the pack {folder} was not exported. Do that once, and name the result: "
            f"bertvision export {folder} --to onnx --out DIR"
        )
    from bertvision.packs.pack import Pack  # noqa: PLC0415 - imports torch, which exported packs do not need

    return Pack.load(folder)


def load_reader(first: PackFolder, *others: PackFolder, encoder: str | None = None, device: Device = "auto") -> Reader:
    """Load encoder and heads of packs, or the graph of an exported pack.

    Args:
        first: a pack, exported or not.
        others: further packs over the same encoder with the same changes; none if the first one is exported.
        encoder: path or name of the encoder; None takes the one that the packs name.
        device: device to compute on.

    Raises:
        BertVisionError: something cannot be loaded, or an exported pack is given an encoder, a GPU or further packs.
    """
    if isinstance(first, ExportedPack):
        if encoder is not None or device == "cuda" or others:
            raise BertVisionError(
                f"the exported pack {first.folder} brings its encoder with it, and runs by itself on the CPU. Leave "
                "--encoder and --device cuda out."
            )
        from bertvision.packs.graph_reader import GraphReader  # noqa: PLC0415 - its runtimes are extras

        made = first.export
        return GraphReader(first.folder, first.card, pad=made.pad, limit=made.limit, runtime=first.runtime)
    from bertvision.packs.models import PackModels  # noqa: PLC0415 - imports torch
    from bertvision.packs.pack import Pack  # noqa: PLC0415

    packs = [pack for pack in (first, *others) if isinstance(pack, Pack)]
    if len(packs) <= len(others):
        raise TypeError(f"{type(first).__name__} is no pack that anything reads")
    return PackModels(packs, encoder=encoder, device=device)
