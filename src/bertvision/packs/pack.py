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
    """What makes a frozen encoder answer a task."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The pack in a folder; the encoder is not loaded yet.

        Raises:
            BertVisionError: there is none, or it is not whole.
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
        """A pack by the folder it is in or by its name on the Hugging Face hub; None takes the one shipped here.

        Raises:
            BertVisionError: there is none.
        """
        return cls.load(locate_pack(name))

    @cached_property
    @override
    def encoder_id(self) -> str:
        """Tells encoders apart, with what changed in them: packs with the same one can share a pass."""
        digests = [self.card.digests.get(path.name) or file_digest(path) for path in self._changes]
        return "+".join([self.card.fingerprint, *(digest[:16] for digest in digests)])

    def load_encoder(self, *, encoder: str | None = None, device: Device = "auto") -> Encoder:
        """The frozen encoder with the pack's changes in it.

        Args:
            encoder: path or name of the encoder; None takes the one that the pack names.
            device: device to compute on.

        Raises:
            BertVisionError: there is no such encoder, or it has other weights.
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
        """Its heads.

        Raises:
            BertVisionError: one cannot be read, or is another one than the card was written for.
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
    """Write a pack; its folder appears, or is replaced, only when it is whole.

    Args:
        folder: folder to write.
        card: card of the pack.
        changes: the encoder's parameters that were trained, one set for each word of `card.learn`.
        heads: heads by name.
        keep: how numbers are stored; what float16 cannot hold stays as it is.

    Raises:
        BertVisionError: the folder holds something else, or it cannot be written.
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
    """A tensor in 16 bits, unless it is none of floats, or has numbers beyond them."""
    if keep == "float32" or not value.is_floating_point():
        return value.contiguous()
    narrow = value.to(torch.float16)
    return narrow.contiguous() if bool(narrow.isfinite().all()) else value.contiguous()
