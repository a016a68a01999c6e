"""PackCard: what a pack says of itself, as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bertvision.errors import BertVisionError
from bertvision.pack_files import FORMAT, PACK_FILE, read_pack_file
from bertvision.provenance import package_version
from bertvision.tasks.task import Pairs, Pool, SquadLayout, TableLayout, Task
from bertvision.tasks.windows import WindowOptions

Keep = Literal["float16", "float32"]
"""How the numbers of a pack are stored."""

Reads = Literal["tokens", "rows"]
"""What heads are given: every token of a window, or one row that stands for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCard:
    """What a pack is.

    Attributes:
        task: task that the pack is for.
        encoder: name of the frozen encoder that it lies over: `minilm`, a folder, or a name on the hub.
        fingerprint: fingerprint of that encoder.
        learn: what was tuned in it, one word for each tuning; empty if nothing was.
        heads: names of the heads; of several the mean counts.
        reads: what the heads are given.
        pool: whether the row of the first token or the mean of all stands for a text; for labels, tags and scores.
        pairs: how the two texts of a pair are encoded; `together` where texts are single.
        windows: options of the token windows that the heads were trained on.
        threshold: margins of "no answer" above it are answered with nothing; None where every question has an answer.
        scores: metrics on a split that was not learned from, at that threshold.
        data: source and number of the examples.
        licence: licence of the pack, as the Hugging Face hub writes it.
        provenance: commit, versions and hardware that the pack was made with.
        digests: the sha256 of every file of weights, by its path in the pack; none in packs of earlier versions.
    """

    task: Task
    encoder: str
    fingerprint: str
    learn: tuple[str, ...]
    heads: tuple[str, ...]
    reads: Reads
    pool: Pool
    pairs: Pairs
    windows: WindowOptions
    threshold: float | None
    scores: dict[str, float | None]
    data: dict[str, Any]
    licence: str
    provenance: dict[str, Any]
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def separate(self) -> bool:
        """Whether the texts of a pair are encoded each by itself."""
        return self.pairs != "together"

    def as_json(self) -> dict[str, Any]:
        """What its file holds."""
        task = self.task
        layout = {"form": "squad" if isinstance(task.layout, SquadLayout) else "table", **asdict(task.layout)}
        asked = {
            "name": task.name,
            "kind": task.kind,
            "summary": task.summary,
            "layout": layout,
            "labels": task.labels,
            "separator": task.separator,
            "limits": task.limits,
            "metrics": task.metrics,
        }
        whole = asdict(self) | {"task": asked}
        return {"format": FORMAT, "record": "pack", "version": package_version(), **whole}


def read_pack_card(folder: Path) -> PackCard:
    """The card of the pack in a folder.

    Raises:
        BertVisionError: there is none, it cannot be read, or it is of another format.
    """
    card = read_pack_file(folder, _build)
    odd = [name for name in card.heads if Path(name).name != name or name in (".", "..")]
    if odd or not card.heads:
        raise BertVisionError(f"{folder / PACK_FILE}: heads are {list(card.heads)}, names of folders are expected.")
    return card


def pack_names(cards: Sequence[PackCard]) -> tuple[str, ...]:
    """What packs are called: as their tasks, with a number behind those that come again."""
    names: list[str] = []
    for card in cards:
        again = sum(name.partition("-")[0] == card.task.name for name in names)
        names.append(f"{card.task.name}-{again + 1}" if again else card.task.name)
    return tuple(names)


def _build(content: dict[str, Any]) -> PackCard:
    asked = content.pop("task")
    layout = dict(asked.pop("layout"))
    form = {"squad": SquadLayout, "table": TableLayout}[layout.pop("form")]
    asked |= {name: tuple(asked[name]) for name in ("labels", "metrics", "limits") if asked[name] is not None}
    task = Task(layout=form(**layout), files={}, **asked)
    content |= {name: tuple(content[name]) for name in ("learn", "heads")}
    content["digests"] = dict(content.get("digests", {}))
    if "apart" in content:  # of packs that were made before texts could be aligned
        content["pairs"] = "apart" if content.pop("apart") else "together"
    return PackCard(task=task, windows=WindowOptions(**content.pop("windows")), **content)
