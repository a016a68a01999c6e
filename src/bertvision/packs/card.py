"""PackCard: the description of a pack, stored in it as JSON."""

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
"""Number format of the weights in a pack."""

Reads = Literal["tokens", "rows"]
"""Input of the heads: every token of a window, or one pooled row per window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCard:
    """The description of a pack.

    Attributes:
        task: task that the pack is for.
        encoder: name of the frozen encoder that it needs: `minilm`, a folder, or a name on the hub.
        fingerprint: fingerprint of that encoder.
        learn: which parameters of it were tuned, one word for each tuning in turn; empty if none were.
        heads: names of the heads; of several the mean is the pack's output.
        reads: input of the heads.
        pool: how a text becomes one row, by its first token or by the mean of all; for labels, tags and scores.
        pairs: how the two texts of a pair are encoded; `together` for single texts.
        windows: options of the token windows that the heads were trained on.
        threshold: margin of "no answer" above which that is the prediction; None if every question has an answer.
        scores: metrics, at that threshold, on examples that were not trained on.
        data: source and numbers of the examples.
        licence: licence of the pack, as the Hugging Face hub writes it.
        provenance: commit, versions and hardware that the pack was made with.
        digests: sha256 of every file with weights, by its path in the pack; empty in packs of earlier versions.
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
        """Whether the texts of a pair are encoded separately."""
        return self.pairs != "together"

    def as_json(self) -> dict[str, Any]:
        """The content of `pack.json`."""
        task = self.task
        layout = {"form": "squad" if isinstance(task.layout, SquadLayout) else "table", **asdict(task.layout)}
        task_fields = {
            "name": task.name,
            "kind": task.kind,
            "summary": task.summary,
            "layout": layout,
            "labels": task.labels,
            "separator": task.separator,
            "limits": task.limits,
            "metrics": task.metrics,
        }
        content = asdict(self) | {"task": task_fields}
        return {"format": FORMAT, "record": "pack", "version": package_version(), **content}


def read_pack_card(folder: Path) -> PackCard:
    """Read the card of the pack in a folder.

    Raises:
        BertVisionError: there is no card, it cannot be read, it has another format, or its heads are no folder names.
    """
    card = read_pack_file(folder, _build)
    invalid = [name for name in card.heads if Path(name).name != name or name in (".", "..")]
    if invalid or not card.heads:
        raise BertVisionError(f"{folder / PACK_FILE}: heads are {list(card.heads)}, names of folders are expected.")
    return card


def pack_names(cards: Sequence[PackCard]) -> tuple[str, ...]:
    """Names for packs: those of their tasks, with a number appended to repeated ones."""
    names: list[str] = []
    for card in cards:
        earlier = sum(name.partition("-")[0] == card.task.name for name in names)
        names.append(f"{card.task.name}-{earlier + 1}" if earlier else card.task.name)
    return tuple(names)


def _build(content: dict[str, Any]) -> PackCard:
    """A card from the content of `pack.json`, without format, record and version."""
    fields = content.pop("task")
    layout = dict(fields.pop("layout"))
    form = {"squad": SquadLayout, "table": TableLayout}[layout.pop("form")]
    fields |= {name: tuple(fields[name]) for name in ("labels", "metrics", "limits") if fields[name] is not None}
    task = Task(layout=form(**layout), files={}, **fields)
    content |= {name: tuple(content[name]) for name in ("learn", "heads")}
    content["digests"] = dict(content.get("digests", {}))
    if "apart" in content:  # packs of versions that could not align texts yet
        content["pairs"] = "apart" if content.pop("apart") else "together"
    return PackCard(task=task, windows=WindowOptions(**content.pop("windows")), **content)
