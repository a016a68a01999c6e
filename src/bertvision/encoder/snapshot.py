"""A snapshot of a tuned encoder: what changed, its output, and the encoder it belongs to."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bertvision.atomic import whole_folder, write_json
from bertvision.cards import read_card
from bertvision.errors import BertVisionError
from bertvision.places import encoder_from_here, made_in
from bertvision.tensor_files import load_tensors, save_tensors
from bertvision.typed_json import from_json

FORMAT = 2
SNAPSHOTS = "snapshots"
_CARD, _CHANGES = "snapshot.json", "encoder.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A folder with the state of a run at some fraction of an epoch.

    Attributes:
        folder: where it is.
        fraction: epochs that it was tuned for.
        step: optimiser steps.
        encoder: the encoder that was tuned.
        fingerprint: the fingerprint of that encoder before tuning.
        learn: what learned.
        task: what it was tuned for.
        head: the head's name; the folder holds it as `save_head` writes it.
        pooled: whether the head reads the encoder's pooled vector as one more layer.
        pool: which token's row counts, or the mean; for labels, tags and scores.
        labels: label words in class order.
        schedule: the learning rate's schedule: a snapshot in the middle of a decaying one differs from the end of a
            shorter run.
        total_epochs: epochs that the schedule was planned for.
    """

    folder: Path
    fraction: float
    step: int
    encoder: str
    fingerprint: str
    learn: str
    task: str
    head: str
    pooled: bool
    pool: str
    labels: tuple[str, ...]
    schedule: str
    total_epochs: float

    @property
    def run(self) -> Path:
        """The folder of the run that the snapshot belongs to."""
        return self.folder.parent.parent

    @property
    def changes(self) -> Path:
        """The file with the encoder's parameters that learned."""
        return self.folder / _CHANGES

    def load_changes(self) -> dict[str, Tensor]:
        """The encoder's parameters that learned, by name."""
        return load_tensors(self.changes)


def save_snapshot(snapshot: Snapshot, changes: Mapping[str, Tensor], write_head: Callable[[Path], None]) -> None:
    """Write a snapshot; its folder appears only when it is whole.

    Args:
        snapshot: what its card says.
        changes: the encoder's parameters that learned.
        write_head: puts the head's files into a folder.

    Raises:
        WriteError: it cannot be written; nothing half-written is left, and earlier snapshots stay.
    """
    card = {"format": FORMAT, "made_in": made_in(snapshot.folder)} | asdict(snapshot)
    del card["folder"]
    otherwise = "Earlier snapshots are kept; make room and --resume."
    with whole_folder(snapshot.folder, "the snapshot", otherwise=otherwise) as part:
        save_tensors(part / _CHANGES, changes)
        write_head(part)
        write_json(part / _CARD, card)


def find_snapshot(name: str) -> Snapshot | None:
    """The snapshot that `RUN`, `RUN@0.3` or a snapshot's own folder means; None if the name is no run's.

    Raises:
        BertVisionError: the run has no such snapshot; the message lists those it has.
    """
    path = Path(name)
    if (path / _CARD).is_file():
        return read_snapshot(path)
    run, at = split_snapshot(name)
    if not (run / SNAPSHOTS).is_dir():
        return None
    there = list_snapshots(run)
    if not there:
        raise BertVisionError(f"{run} has no snapshot yet.")
    if not at:
        return there[-1]
    fraction = at.removeprefix("@")
    for snapshot in there:
        if snapshot.folder.name == fraction or str(snapshot.fraction) == fraction:
            return snapshot
    raise BertVisionError(f"{run} has no snapshot at {fraction}; it has {', '.join(s.folder.name for s in there)}.")


def split_snapshot(name: str) -> tuple[Path, str]:
    """The folder of a run, and which snapshot of it: `RUN@0.3` is `RUN` and `@0.3`, `RUN` has none."""
    path = Path(name)
    if path.is_dir() or "@" not in path.name:  # a folder's own name may have the sign, too
        return path, ""
    run, _, fraction = path.name.rpartition("@")
    return path.parent / run, f"@{fraction}"


def list_snapshots(run: Path) -> list[Snapshot]:
    """Every snapshot of a run, in order."""
    whole = (run / SNAPSHOTS).glob("[!.]*")  # names with a dot are being written, or were when a run was killed
    folders = [path for path in whole if (path / _CARD).is_file()]
    return sorted((read_snapshot(path) for path in folders), key=lambda snapshot: snapshot.fraction)


def read_snapshot(folder: Path) -> Snapshot:
    """A snapshot's card.

    Raises:
        BertVisionError: it cannot be read, or is of another format.
    """
    return read_card(
        folder / _CARD,
        lambda card: _snapshot(folder, card),
        format=FORMAT,
        otherwise="Tune again, with another --out.",
    )


def _snapshot(folder: Path, card: dict[str, Any]) -> Snapshot:
    made = card.pop("made_in", None)  # snapshots from before do not tell
    return from_json(Snapshot, card | {"folder": folder, "encoder": encoder_from_here(card["encoder"], folder, made)})
