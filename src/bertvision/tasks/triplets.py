"""mine_triplets: anchors with a positive and several negatives each, by the rules of document 004."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import Examples, IntArray, Texts, number_texts
from bertvision.tasks.task import Task

OWN_NEGATIVES = 3
"""Negatives of an anchor from its own set; every other set gives one more."""

_NO_AND_YES = (("0", "1"), ("no", "yes"), ("false", "true"))
"""Pairs of labels (alphabetically) of which the second says that two texts mean the same. The order of class numbers is
not used for other labels, since in the user's own files it is alphabetical."""

_LOW, _HIGH = 0.4, 0.6
"""Highest low score and lowest high score, as shares of the range of scores: 2 and 3 for scores from 0 to 5."""


@dataclass(frozen=True, slots=True)
class Triplets:
    """Triplets of several data sets; anchors, positives and negatives are indices into `texts`.

    Attributes:
        names: of the sets.
        texts: the different texts of all sets.
        anchor: (triplets,) anchors.
        positive: (triplets,) one text per anchor that belongs near it.
        negatives: (triplets, 3 + other sets) texts that belong far from the anchor: three of its own set, and one of
            each other set.
        set_of: (triplets,) index into `names` of the anchor's set.
        group: (triplets,) anchors with the same number must not be used as negatives of each other (in-batch
            negatives): those of one class; in sets of pairs, every anchor has a number of its own.
        left_out: number of texts or pairs that became no anchors, by set and reason.
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
        """The same triplets without the texts that no triplet uses."""
        needed = np.unique(np.concatenate([self.anchor, self.positive, self.negatives.ravel()]))
        return replace(
            self,
            texts=[self.texts[number] for number in needed.tolist()],
            anchor=np.searchsorted(needed, self.anchor),
            positive=np.searchsorted(needed, self.positive),
            negatives=np.searchsorted(needed, self.negatives),
        )

    def select(self, rows: IntArray) -> "Triplets":
        """The triplets at `rows`, in that order; all texts are kept."""
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
    """The triplets of one set, with negatives of that set only; fields as in `Triplets`."""

    anchor: IntArray
    positive: IntArray
    negatives: IntArray
    group: IntArray
    left_out: dict[str, int]


def mine_triplets(sets: Mapping[str, tuple[Task, Examples]], *, seed: int) -> Triplets:
    """Make triplets of several sets.

    - Single texts with labels: every text is an anchor once; its positive has the same class, its negatives have
      others. Texts with two classes, and texts that are alone in their class, are left out.
    - Scores: the same with two classes, low (0 to 2 of 5) and high (3 to 5); those between are left out. In pairs, each
      of the two texts has the class of the pair.
    - Pairs with labels: the first text of a pair that means the same (see `same_class`) is an anchor, and the second
      its positive; negatives come from the other pairs. Pairs of equal texts are left out.

    Every anchor also gets one negative from every other set.

    Args:
        sets: task and examples of each set, by name.
        seed: of the random draws.

    Raises:
        BertVisionError: a task is not one of texts with labels or scores, has too few texts, or its labels do not tell
            which pairs mean the same.
    """
    random = np.random.default_rng(seed)
    numbers: dict[str, int] = {}
    columns = {name: _number_columns(task, examples, numbers) for name, (task, examples) in sets.items()}
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
    groups = [one.group * len(sets) + number for number, one in enumerate(mined.values())]  # distinct between sets
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
    """Draw texts from a pool for every row, without replacement inside a row, (rows, count).

    Args:
        random: the random generator.
        pool: (texts,) text numbers, ascending.
        taken: (rows, any number) text numbers that a row must not get; they may repeat, or not be in the pool.
        count: number of texts to draw per row.
        what: name of the pool's set, for the error message.

    Raises:
        BertVisionError: the pool has too few texts for a row.
    """
    taken = np.sort(taken, axis=1)
    places = np.minimum(np.searchsorted(pool, taken), max(0, len(pool) - 1))
    in_pool = (pool[places] == taken) if len(pool) else np.zeros_like(taken, dtype=np.bool_)
    in_pool[:, 1:] &= taken[:, 1:] != taken[:, :-1]  # of equal ones, the first counts
    available = len(pool) - in_pool.sum(axis=1)
    if len(available) and int(available.min()) < count:
        raise BertVisionError(
            f"{what} has {int(available.min())} texts to draw {count} from. Use more examples, or leave the task out."
        )
    # sorted draws with repetitions become distinct by adding 0, 1, 2, …; then every draw skips the places taken
    drawn = np.sort(random.integers(0, (available - count + 1)[:, None], size=(len(taken), count)), axis=1)
    drawn += np.arange(count)
    for place, is_in_pool in zip(places.T, in_pool.T, strict=True):
        drawn += is_in_pool[:, None] & (drawn >= place[:, None])
    return pool[drawn]


def _number_columns(task: Task, examples: Examples, numbers: dict[str, int]) -> list[IntArray]:
    """Numbers of the texts, [(examples,)]; for pairs, of the first texts and of the second texts."""
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
    """Mine the triplets of one set; `columns` are the numbers of its texts, for pairs of first and second texts."""
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
    labelled = np.unique(np.stack([texts, classes], axis=1), axis=0)  # (texts and classes, 2) without repetitions
    different, counts = np.unique(labelled[:, 0], return_counts=True)
    has_one_class = np.isin(labelled[:, 0], different[counts == 1])
    texts, classes = labelled[has_one_class, 0], labelled[has_one_class, 1]
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

    The second text is its positive, and its three negatives are texts of pairs that do not mean the same.
    """
    is_same = classes == same_class(task)
    kept = is_same & (first != second)
    anchor, positive = first[kept], second[kept]
    pool = np.unique(np.concatenate([first[~is_same], second[~is_same]]))
    negatives = draw_others(random, pool, np.stack([anchor, positive], axis=1), OWN_NEGATIVES, what=task.name)
    left_out = {"the same words": int((is_same & (first == second)).sum())}
    return _Mined(anchor, positive, negatives, np.arange(len(anchor)), left_out)


def same_class(task: Task) -> int:
    """Class number of pairs that mean the same: the label entailment if there is one, else 1, yes or true.

    Raises:
        BertVisionError: the task has other labels.
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
