"""What cells of the kind `sentences` may be told."""

from dataclasses import dataclass, replace

from bertvision.bench.environment import BUILTIN_DATA, settings_digest
from bertvision.bench.sentence_methods import METHODS
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.load import find_task
from bertvision.tasks.task import TableLayout

SENTENCES = "sentences"
"""The name of the kind."""

LEAST = {"length": 3, "per_class": 5, "most": 5}
"""A text has a token between the first and the last; five folds choose a penalty, and each needs an example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSettings:
    """Methods that label or score texts, each on the same examples.

    Attributes:
        task: with labels or scores of texts or pairs of texts.
        data: `builtin`, or a folder below that of `--data`.
        encoder: a sentence encoder; `--encoder` says where it is.
        length: most tokens of a text, where our heads read it.
        methods: methods of `METHODS`; those named in one cell are measured together.
        per_class: examples of each class to learn from, or of scores near the same whole number; None takes all.
        most: training examples to draw them from, the same with every seed; None takes all.
    """

    task: str = "sst2"
    data: str = BUILTIN_DATA
    encoder: str = BUILTIN_ENCODER
    length: int = 384
    methods: tuple[str, ...] = ("last_layer", "layer_concat", "embeddings")
    per_class: int | None = None
    most: int | None = None

    @property
    def models(self) -> list[str]:
        """Names of what is measured."""
        return list(self.methods)

    @property
    def by_chance(self) -> bool:
        """Whether another seed may give another result."""
        return self.per_class is not None or any(METHODS[name].tunes for name in self.methods)

    @property
    def vectors(self) -> str:
        """The folder of vectors, the same for all cells that read the same texts with the same encoder."""
        return f"vectors-{settings_digest('vectors', replace(self, methods=(), per_class=None), 0)}"

    def check(self) -> None:
        """Refuse what cannot work, before anything is measured.

        Raises:
            BertVisionError: naming the word.
        """
        task = find_task(self.task)
        if task.kind not in ("labels", "scores") or not isinstance(task.layout, TableLayout):
            raise BertVisionError(f"task is '{self.task}'; one with labels or scores of texts is expected, as sst2.")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise BertVisionError(f"methods is {list(self.methods)}; each of {', '.join(METHODS)} may stand once.")
        for name in self.methods:
            if name not in METHODS:
                raise UnknownNameError("method", name, METHODS)
            if METHODS[name].tunes and (task.kind != "labels" or task.layout.pair is not None):
                raise BertVisionError(f"method '{name}' labels single texts, and {self.task} has others. Leave it out.")
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise BertVisionError(f"{name} is {value}; {least} or more are expected.")
