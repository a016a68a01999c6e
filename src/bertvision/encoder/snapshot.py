"""A snapshot (checkpoint) of a tuned encoder: the parameters that learned, the head, and how it was tuned."""

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
CARD, _CHANGES = "snapshot.json", "encoder.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A folder with the state of a run at some fraction of an epoch.

    Attributes:
        folder: of its files.
        fraction: number of epochs done.
        step: number of optimiser steps done.
        encoder: name of the encoder that was tuned.
        fingerprint: the fingerprint of that encoder before tuning.
        learn: the choice of `--learn`.
        task: name of the task it was tuned for.
        head: the head's name; its weights are in the folder, as `save_head` writes them.
        pooled: whether the head reads the encoder's pooled vector as one more layer.
        pool: how output rows of tokens are pooled, for labels, tags and scores.
        labels: names of the classes, in order.
        schedule: learning rate schedule: while a decaying one is under way, a snapshot differs from the end of a
            shorter run.
        total_epochs: length of the schedule.
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
    """Write a snapshot; its folder appears only when it is complete.

    Args:
        snapshot: its folder, and the contents of its card.
        changes: the encoder's parameters that learned, by name.
        write_head: writes the head's files into the folder that it is given.

    Raises:
        WriteError: it cannot be written; no partial snapshot is left, and earlier ones stay.
    """
    card = {"format": FORMAT, "made_in": made_in(snapshot.folder)} | asdict(snapshot)
    del card["folder"]
    otherwise = "Earlier snapshots are kept; make room and --resume."
    with whole_folder(snapshot.folder, "the snapshot", otherwise=otherwise) as part:
        save_tensors(part / _CHANGES, changes)
        write_head(part)
        write_json(part / CARD, card)


def find_snapshot(name: str) -> Snapshot | None:
    """The snapshot named by `RUN` (its last one), `RUN@0.3` or the snapshot's own folder; None for any other name.

    Raises:
        BertVisionError: the run has no snapshot, or none at this fraction (the message lists those it has).
    """
    path = Path(name)
    if (path / CARD).is_file():
        return read_snapshot(path)
    run, at = split_snapshot(name)
    if not (run / SNAPSHOTS).is_dir():
        return None
    snapshots = list_snapshots(run)
    if not snapshots:
        raise BertVisionError(f"{run} has no snapshot yet.")
    if not at:
        return snapshots[-1]
    fraction = at.removeprefix("@")
    for snapshot in snapshots:
        if snapshot.folder.name == fraction or str(snapshot.fraction) == fraction:
            return snapshot
    raise BertVisionError(f"{run} has no snapshot at {fraction}; it has {', '.join(s.folder.name for s in snapshots)}.")


def split_snapshot(name: str) -> tuple[Path, str]:
    """The run's folder and the snapshot in a name: `RUN@0.3` gives `RUN` and `@0.3`, `RUN` gives an empty string."""
    path = Path(name)
    if path.is_dir() or "@" not in path.name:  # the name of a folder may contain @, too
        return path, ""
    run, _, fraction = path.name.rpartition("@")
    return path.parent / run, f"@{fraction}"


def list_snapshots(run: Path) -> list[Snapshot]:
    """All snapshots of a run, the earliest first."""
    paths = (run / SNAPSHOTS).glob("[!.]*")  # folders that begin with a dot are not complete: `whole_folder`
    folders = [path for path in paths if (path / CARD).is_file()]
    return sorted((read_snapshot(path) for path in folders), key=lambda snapshot: snapshot.fraction)


def read_snapshot(folder: Path) -> Snapshot:
    """Read the snapshot in a folder from its card.

    Raises:
        BertVisionError: the card cannot be read, or has another format version.
    """
    return read_card(
        folder / CARD,
        lambda card: _snapshot(folder, card),
        format=FORMAT,
        otherwise="Tune again, with another --out.",
    )


def _snapshot(folder: Path, card: dict[str, Any]) -> Snapshot:
    made = card.pop("made_in", None)  # snapshots from before do not tell
    return from_json(Snapshot, card | {"folder": folder, "encoder": encoder_from_here(card["encoder"], folder, made)})
