"""open_pack: a name → a pack, exported or not; load_reader: a pack → what reads windows with it."""

from pathlib import Path
from typing import Literal

from bertvision.errors import BertVisionError
from bertvision.packs.exported import ExportedPack
from bertvision.packs.pack_folder import PackFolder, is_exported, locate_pack
from bertvision.packs.reader import Reader
from bertvision.runs.parts import Device

Runtime = Literal["auto", "torch", "onnx"]
"""What computes: `auto` takes ONNX Runtime for exported packs, PyTorch for the others."""


def open_pack(name: str | Path | None = None, *, runtime: Runtime = "auto") -> PackFolder:
    """A pack by the folder it is in or by its name on the Hugging Face hub; None takes the one shipped here.

    Nothing of torch is imported for an exported pack.

    Raises:
        BertVisionError: there is none, or that runtime does not run it.
    """
    folder = locate_pack(name)
    exported = is_exported(folder)
    if runtime == "onnx" and not exported:
        raise BertVisionError(
            f"the pack {folder} was not exported. Do that once, and name the result: "
            f"bertvision export {folder} --to onnx --out DIR"
        )
    if runtime == "torch" and exported:
        raise BertVisionError(f"the pack {folder} was exported for ONNX Runtime. Name the pack it was made of.")
    if exported:
        return ExportedPack.load(folder)
    from bertvision.packs.pack import Pack  # noqa: PLC0415 - imports torch, which exported packs do without

    return Pack.load(folder)


def load_reader(pack: PackFolder, *, encoder: str | None = None, device: Device = "auto") -> Reader:
    """Load what a pack needs to be asked.

    Args:
        pack: exported or not.
        encoder: where the encoder is, where that is not what the pack calls it.
        device: where to compute.

    Raises:
        BertVisionError: it cannot be loaded, or an exported pack is given an encoder or a GPU.
    """
    if isinstance(pack, ExportedPack):
        if encoder is not None or device == "cuda":
            raise BertVisionError(
                f"the exported pack {pack.folder} brings its encoder with it, and runs on the CPU. Leave --encoder and "
                "--device cuda out."
            )
        from bertvision.packs.onnx_reader import OnnxReader  # noqa: PLC0415 - onnxruntime is an extra

        return OnnxReader(pack.folder, pack.card, pad=pack.export.pad, limit=pack.export.limit)
    from bertvision.packs.models import PackModels  # noqa: PLC0415 - imports torch
    from bertvision.packs.pack import Pack  # noqa: PLC0415

    if not isinstance(pack, Pack):
        raise TypeError(f"{type(pack).__name__} is no pack that anything reads")
    return PackModels([pack], encoder=encoder, device=device)
