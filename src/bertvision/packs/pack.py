"""Pack: a folder of safetensors and JSON over a named frozen encoder, here or on the hub."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self, final

import torch
from torch import Tensor
from typing_extensions import override

from bertvision.atomic import write_json, write_text
from bertvision.device import Device
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import apply_tuned
from bertvision.encoder.tuned import read_tuned_pack
from bertvision.errors import BertVisionError
from bertvision.heads import Head, load_head, save_head
from bertvision.inference.frozen_encoder import load_frozen
from bertvision.pack_files import HEADS_FOLDER, PACK_FILE, changes_file, check_digest, head_file, weights_digests
from bertvision.packs.card import Keep, PackCard, read_pack_card
from bertvision.packs.model_card import model_card
from bertvision.packs.pack_folder import PackFolder, is_exported, locate_pack, with_folder
from bertvision.provenance import file_digest
from bertvision.tensor_files import save_tensors

README = "README.md"


@final
@dataclass(frozen=True)
class Pack(PackFolder):
    """A pack that PyTorch computes: the trained parameters of the encoder, and heads."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open the pack in a folder; encoder and heads are not loaded yet.

        Raises:
            BertVisionError: there is no pack, it is an exported one, its card cannot be read, or a file is missing.
        """
        place = Path(folder)
        pack = cls(place, read_pack_card(place))
        if is_exported(place):
            raise BertVisionError(f"{place} was exported, and PyTorch does not read it. Name the pack it was made of.")
        missing = [path for path in pack._files if not path.is_file()]
        if missing:
            raise BertVisionError(f"{place} is not whole: {missing[0].relative_to(place)} is not there. Copy it again.")
        return pack

    @classmethod
    def from_pretrained(cls, name: str | Path | None = None) -> Self:
        """Open a pack by its folder or by its name on the Hugging Face hub; None opens the one of the installation.

        Raises:
            BertVisionError: there is no such pack, or as `load`.
        """
        return cls.load(locate_pack(name))

    @cached_property
    @override
    def encoder_id(self) -> str:
        """Fingerprint of the frozen encoder and of the changes in it; packs with the same id can share a pass."""
        digests = [self.card.digests.get(path.name) or file_digest(path) for path in self._changes]
        return "+".join([self.card.fingerprint, *(digest[:16] for digest in digests)])

    def load_encoder(self, *, encoder: str | None = None, device: Device = "auto") -> Encoder:
        """Load the frozen encoder, and replace the parameters that the pack changes.

        Args:
            encoder: path or name of the encoder; None takes the one that the pack names.
            device: device to compute on.

        Raises:
            BertVisionError: the encoder cannot be loaded, or has other weights than the pack was made with.
        """
        name = self.card.encoder if encoder is None else encoder
        loaded = load_frozen(name, device=device, dtype="auto")
        apply_tuned(
            loaded,
            read_tuned_pack(self.folder),
            otherwise="Name the encoder with the same weights: --encoder, or encoder= in Python.",
        )
        return loaded

    def load_heads(self) -> list[Head]:
        """Load the heads, in the order of the card.

        Raises:
            BertVisionError: a head cannot be read, or its file differs from the digest in the card.
        """
        for name in map(head_file, self.card.heads):
            check_digest(self.folder / name, self.card.digests.get(name))
        try:
            return [load_head(self.folder / HEADS_FOLDER / name) for name in self.card.heads]
        except BertVisionError as error:
            raise BertVisionError(f"{error} Copy the pack again, or make it again: bertvision pack RUN") from None

    @property
    def _changes(self) -> list[Path]:
        return [self.folder / changes_file(number) for number in range(len(self.card.learn))]

    @property
    def _files(self) -> list[Path]:
        heads = [self.folder / HEADS_FOLDER / name for name in self.card.heads]
        return [*self._changes, *(head / file for head in heads for file in ("head.json", "head.safetensors"))]


def write_pack(
    folder: Path, card: PackCard, *, changes: Sequence[Mapping[str, Tensor]], heads: Mapping[str, Head], keep: Keep
) -> Pack:
    """Write a pack; its folder appears, or replaces an older pack, only when it is complete.

    Args:
        folder: folder to write.
        card: card of the pack; its digests are filled in.
        changes: the trained parameters of the encoder by name, one mapping for each tuning in `card.learn`.
        heads: heads by name; their tensors are converted to the stored format in place.
        keep: number format; tensors with values beyond the range of float16 stay as they are.

    Raises:
        BertVisionError: the folder is not empty and holds no pack, or it cannot be written.
    """

    def write(place: Path) -> None:
        for number, stage in enumerate(changes):
            save_tensors(place / changes_file(number), {name: _narrow(value, keep) for name, value in stage.items()})
        for name, head in heads.items():
            place_of_head = place / HEADS_FOLDER / name
            place_of_head.mkdir(parents=True)
            for tensor in (*head.parameters(), *head.buffers()):
                tensor.data = _narrow(tensor.data, keep)
            save_head(head, place_of_head)
        write_json(place / PACK_FILE, replace(card, digests=weights_digests(place)).as_json())
        write_text(place / README, model_card(card))

    with_folder(folder, write)
    return Pack.load(folder)


def _narrow(value: Tensor, keep: Keep) -> Tensor:
    """The tensor as it is stored: in float16 if `keep` says so, unless it holds integers or float16 would overflow."""
    if keep == "float32" or not value.is_floating_point():
        return value.contiguous()
    narrow = value.to(torch.float16)
    return narrow.contiguous() if bool(narrow.isfinite().all()) else value.contiguous()
