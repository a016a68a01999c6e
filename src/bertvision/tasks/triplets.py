"""Triplets by the rules of document 004: an anchor, one text that belongs near it, and some that belong far away."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import Examples, IntArray, Texts, number_texts
from bertvision.tasks.task import Task

OWN_NEGATIVES = 3
"""Texts of the anchor's own set that belong far away; every other set gives one more."""

_NO_AND_YES = (("0", "1"), ("no", "yes"), ("false", "true"))
"""Labels that tell whether two texts mean the same; the order of others, alphabetical in a user's files, does not."""

_LOW, _HIGH = 0.4, 0.6
"""Up to where a score is low and from where it is high, as shares of its range: 2 and 3 of 0 to 5."""


@dataclass(frozen=True, slots=True)
class Triplets:
    """Texts of several sets, and which of them belong together.

    Attributes:
        names: the sets.
        texts: every different text, all sets together.
        anchor: (triplets,) numbers of texts.
        positive: (triplets,) the text that belongs near the anchor.
        negatives: (triplets, 3 + other sets) texts that belong far away: three of the anchor's set, one of each other.
        set_of: (triplets,) the anchor's set.
        group: (triplets,) anchors of one group are no negatives of each other: those of one class; every paraphrase is
            a group by itself.
        left_out: texts or pairs that are no anchors, by set and reason.
    """

    names: tuple[str, ...]
    texts: list[str]
    anchor: IntArray
    positive: IntArray
    negatives: IntArray
    set_of: IntArray
    group: IntArray
    left_out: dict[str, dict[str, int]]

    def __len__(self) -> int:
        return len(self.anchor)

    def compact(self) -> "Triplets":
        """The same triplets without the texts that occur in none of them."""
        needed = np.unique(np.concatenate([self.anchor, self.positive, self.negatives.ravel()]))
        return replace(
            self,
            texts=[self.texts[number] for number in needed.tolist()],
            anchor=np.searchsorted(needed, self.anchor),
            positive=np.searchsorted(needed, self.positive),
            negatives=np.searchsorted(needed, self.negatives),
        )

    def select(self, rows: IntArray) -> "Triplets":
        """The triplets at `rows`; texts are kept as they are."""
        return replace(
            self,
            anchor=self.anchor[rows],
            positive=self.positive[rows],
            negatives=self.negatives[rows],
            set_of=self.set_of[rows],
            group=self.group[rows],
        )


@dataclass(frozen=True, slots=True)
class _Mined:
    """The triplets of one set: anchors, positives and negatives as numbers of texts."""

    anchor: IntArray
    positive: IntArray
    negatives: IntArray
    group: IntArray
    left_out: dict[str, int]


def mine_triplets(sets: Mapping[str, tuple[Task, Examples]], *, seed: int) -> Triplets:
    """Make triplets of all sets.

    Labels of single texts: every text is an anchor once, its positive has the same class. Scores: the same with two
    classes, low (0 to 2 of 5) and high (3 to 5); what lies between is left out. Pairs with labels: the first text of
    a pair that says the same is an anchor, the second its positive, and negatives come from pairs that do not. A text
    with two classes, and one that is alone in its class, is left out. `same_class` tells which pairs mean the same.

    Args:
        sets: tasks and their examples, by name.
        seed: seed of the random draws.

    Raises:
        BertVisionError: a task has neither labels nor scores of texts, or too few texts, or labels of pairs that do
            not tell which mean the same.
    """
    random = np.random.default_rng(seed)
    numbers: dict[str, int] = {}
    columns = {name: _number(task, examples, numbers) for name, (task, examples) in sets.items()}
    mined = {
        name: _mine(task, _texts(task, examples), columns[name], random) for name, (task, examples) in sets.items()
    }
    for name, one in mined.items():
        if not len(one.anchor):
            raise BertVisionError(f"{name} has no text with another that belongs near it. Leave it out of --tasks.")
    pools = {name: np.unique(np.concatenate(texts)) for name, texts in columns.items()}
    parts = []
    for name, one in mined.items():
        taken = np.stack([one.anchor, one.positive], axis=1)
        others = [draw_others(random, pools[other], taken, 1, what=other) for other in sets if other != name]
        parts.append(np.concatenate([one.negatives, *others], axis=1))
    sizes = [len(one.anchor) for one in mined.values()]
    groups = [one.group * len(sets) + number for number, one in enumerate(mined.values())]  # none is in two sets
    return Triplets(
        names=tuple(sets),
        texts=list(numbers),
        anchor=np.concatenate([one.anchor for one in mined.values()]),
        positive=np.concatenate([one.positive for one in mined.values()]),
        negatives=np.concatenate(parts),
        set_of=np.repeat(np.arange(len(sizes)), sizes),
        group=np.concatenate(groups),
        left_out={name: one.left_out for name, one in mined.items()},
    )


def draw_others(random: np.random.Generator, pool: IntArray, taken: IntArray, count: int, *, what: str) -> IntArray:
    """Different texts of a pool for every row, none of which the row has already, (rows, count).

    Args:
        random: where chance comes from.
        pool: (texts,) numbers, ascending.
        taken: (rows, some) numbers that a row must not get.
        count: how many to draw.
        what: whose texts the pool holds, for the message.

    Raises:
        BertVisionError: the pool is too small.
    """
    taken = np.sort(taken, axis=1)
    places = np.minimum(np.searchsorted(pool, taken), max(0, len(pool) - 1))
    there = (pool[places] == taken) if len(pool) else np.zeros_like(taken, dtype=np.bool_)
    there[:, 1:] &= taken[:, 1:] != taken[:, :-1]
    room = len(pool) - there.sum(axis=1)
    if len(room) and int(room.min()) < count:
        raise BertVisionError(
            f"{what} has {int(room.min())} texts to draw {count} from. Use more examples, or leave the task out."
        )
    # ascending draws that are moved apart are different; then past what is taken
    drawn = np.sort(random.integers(0, (room - count + 1)[:, None], size=(len(taken), count)), axis=1)
    drawn += np.arange(count)
    for place, is_there in zip(places.T, there.T, strict=True):
        drawn += is_there[:, None] & (drawn >= place[:, None])
    return pool[drawn]


def _number(task: Task, examples: Examples, numbers: dict[str, int]) -> list[IntArray]:
    """The numbers of the texts; for pairs, those of the first texts and those of the second texts."""
    texts = _texts(task, examples)
    columns = [texts.texts] if texts.pairs is None else [texts.texts, texts.pairs]
    return [number_texts(column, numbers) for column in columns]


def _texts(task: Task, examples: Examples) -> Texts:
    if not isinstance(examples, Texts) or task.kind not in ("labels", "scores"):
        raise BertVisionError(
            f"{task.name}: triplets are made of texts with labels or scores. Leave it out of --tasks."
        )
    return examples


def _mine(task: Task, examples: Texts, columns: list[IntArray], random: np.random.Generator) -> _Mined:
    if task.kind == "labels" and len(columns) > 1:
        return _mine_pairs(task, columns[0], columns[1], examples.targets.astype(np.int64), random)
    if task.kind == "labels":
        return _mine_classes(task, columns[0], examples.targets.astype(np.int64), {}, random)
    low, high = task.limits or (float(examples.targets.min()), float(examples.targets.max()))
    share = (examples.targets - low) / ((high - low) or 1.0)
    is_low, is_high = share <= _LOW, share >= _HIGH
    kept = np.tile(is_low | is_high, len(columns))
    classes = np.tile(is_high.astype(np.int64), len(columns))
    left_out = {"between": int((~(is_low | is_high)).sum())}
    return _mine_classes(task, np.concatenate(columns)[kept], classes[kept], left_out, random)


def _mine_classes(
    task: Task, texts: IntArray, classes: IntArray, left_out: dict[str, int], random: np.random.Generator
) -> _Mined:
    """Make every text an anchor once: its positive has the same class, its three negatives have other classes."""
    both = np.unique(np.stack([texts, classes], axis=1), axis=0)  # every text with each of its classes
    different, counts = np.unique(both[:, 0], return_counts=True)
    clear = np.isin(both[:, 0], different[counts == 1])
    texts, classes = both[clear, 0], both[clear, 1]
    sizes = np.bincount(classes, minlength=1)
    paired = sizes[classes] > 1
    left_out = left_out | {"two classes": int((counts > 1).sum()), "alone": int((~paired).sum())}
    anchor, group = texts[paired], classes[paired]
    positive = np.empty_like(anchor)
    negatives = np.empty((len(anchor), OWN_NEGATIVES), dtype=np.int64)
    for number in np.unique(group).tolist():
        rows = np.flatnonzero(group == number)
        taken = anchor[rows, None]
        positive[rows] = draw_others(random, texts[classes == number], taken, 1, what=task.name)[:, 0]
        negatives[rows] = draw_others(random, texts[classes != number], taken, OWN_NEGATIVES, what=task.name)
    return _Mined(anchor, positive, negatives, group, left_out)


def _mine_pairs(
    task: Task, first: IntArray, second: IntArray, classes: IntArray, random: np.random.Generator
) -> _Mined:
    """Make the first text of every pair that means the same an anchor.

    The second text is its positive, and its three negatives come from pairs that do not mean the same.
    """
    says_same = classes == same_class(task)
    kept = says_same & (first != second)
    anchor, positive = first[kept], second[kept]
    pool = np.unique(np.concatenate([first[~says_same], second[~says_same]]))
    negatives = draw_others(random, pool, np.stack([anchor, positive], axis=1), OWN_NEGATIVES, what=task.name)
    left_out = {"the same words": int((says_same & (first == second)).sum())}
    return _Mined(anchor, positive, negatives, np.arange(len(anchor)), left_out)


def same_class(task: Task) -> int:
    """The class of pairs that mean the same: entailment where there is such a label, else 1, yes or true.

    Raises:
        BertVisionError: the labels are other words, of which any could mean the same.
    """
    words = [label.lower() for label in task.labels]
    if "entailment" in words:
        return words.index("entailment")
    for no, yes in _NO_AND_YES:
        if sorted(words) == [no, yes]:
            return words.index(yes)
    raise BertVisionError(
        f"{task.name}: triplets need to know which pairs mean the same, and the labels {', '.join(task.labels)} do not "
        "tell. Write 1 for pairs that mean the same and 0 for all others."
    )
