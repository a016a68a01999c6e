"""`bertvision store verify`: check that every file of a store is as it was written."""

from dataclasses import dataclass
from pathlib import Path

from bertvision.cli.output import print_json, print_note
from bertvision.cli.store_info import splits_of
from bertvision.errors import BertVisionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision store verify`."""

    store: Path
    """Folder of a store, or of one of its splits."""

    json: bool = False
    """Print the result as JSON."""


def run(options: Options) -> int:
    """Verify."""
    from bertvision.store.reader import StoreReader  # noqa: PLC0415 - imports torch

    readers = {split.name: StoreReader(split) for split in splits_of(options.store)}
    problems = [f"{split}/{problem}" for split, reader in readers.items() for problem in reader.broken()]
    shards = sum(len(reader.manifest.shards) for reader in readers.values())
    if options.json:
        print_json({"splits": list(readers), "shards": shards, "problems": problems})
    if problems:
        raise BertVisionError(
            f"{options.store} is damaged: {'; '.join(problems)}. Run the same extract again: it writes them anew."
        )
    if not options.json:
        print_note(f"{options.store}: {shards} shards of {len(readers)} splits are as they were written.")
    return 0
