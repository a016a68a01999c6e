"""Tuned: a tuned encoder in a snapshot or a pack, described by the encoder it was made from and the changes to it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bertvision.encoder.snapshot import find_snapshot
from bertvision.errors import BertVisionError
from bertvision.pack_files import changes_file, check_digest, find_pack, read_pack_file
from bertvision.tasks.task import Pool
from bertvision.tensor_files import load_tensors


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the times that an encoder was tuned.

    Attributes:
        learn: the choice of `--learn`.
        file: of the parameters that learned.
        digest: sha256 of the file, from the card of a pack; None if the file is not checked.
    """

    learn: str
    file: Path
    digest: str | None = None

    def load(self) -> dict[str, Tensor]:
        """The parameters that learned, by name.

        Raises:
            BertVisionError: the file cannot be read, or does not have the digest.
        """
        check_digest(self.file, self.digest)
        return load_tensors(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A tuned encoder.

    Attributes:
        folder: the folder of the snapshot or the pack.
        encoder: name of the encoder that was tuned, which may itself be a tuned one.
        fingerprint: the fingerprint of that encoder.
        stages: the changes to it, in the order they were made.
        pool: how the tokens of a text were pooled.
        licence: of a pack; None for a snapshot, which does not state one.
    """

    folder: Path
    encoder: str
    fingerprint: str
    stages: tuple[Stage, ...]
    pool: Pool
    licence: str | None = None


def find_tuned(name: str) -> Tuned | None:
    """The tuned encoder named by `RUN`, `RUN@0.3`, a pack's folder or the shipped pack; None for any other name.

    Raises:
        BertVisionError: the run has no such snapshot, or the pack cannot be read.
    """
    snapshot = find_snapshot(name)
    if snapshot is not None:
        return Tuned(
            folder=snapshot.folder,
            encoder=snapshot.encoder,
            fingerprint=snapshot.fingerprint,
            stages=() if snapshot.learn == "none" else (Stage(snapshot.learn, snapshot.changes),),
            pool="mean" if snapshot.pool == "mean" else "cls",
        )
    folder = find_pack(name)
    return None if folder is None else read_tuned_pack(folder)


def base_encoder(name: str) -> str:
    """The untuned encoder that a tuned one goes back to through all tunings; `name` itself if it is not tuned."""
    tuned = find_tuned(name)
    return name if tuned is None else base_encoder(tuned.encoder)


def tunings(name: str) -> list[Tuned]:
    """All tunings that lead from the untuned encoder to this one, in order; empty if it is not tuned."""
    tuned = find_tuned(name)
    return [] if tuned is None else [*tunings(tuned.encoder), tuned]


def read_tuned_pack(folder: Path) -> Tuned:
    """The tuned encoder of the pack in a folder.

    Raises:
        BertVisionError: there is none, it cannot be read, or lacks a file.
    """

    def build(card: dict[str, Any]) -> Tuned:
        digests = card.get("digests", {})
        files = [(str(word), changes_file(number)) for number, word in enumerate(card["learn"])]
        return Tuned(
            folder=folder,
            encoder=str(card["encoder"]),
            fingerprint=str(card["fingerprint"]),
            stages=tuple(Stage(word, folder / name, digests.get(name)) for word, name in files),
            pool="mean" if card["pool"] == "mean" else "cls",
            licence=str(card["licence"]),
        )

    tuned = read_pack_file(folder, build)
    missing = [stage.file.name for stage in tuned.stages if not stage.file.is_file()]
    if missing:
        raise BertVisionError(
            f"{folder} lacks {missing[0]}, so it is no encoder. If it was exported, name the pack it was made of; "
            "else copy it again."
        )
    return tuned
