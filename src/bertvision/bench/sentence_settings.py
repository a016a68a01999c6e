"""SentenceSettings: the settings of cells of the kind `sentences`."""

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
"""Smallest values of settings: a text has a token between the two special ones, and each of the five folds of
cross-validation needs an example of each class.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSettings:
    """Methods that classify or score texts, all with the same examples.

    Attributes:
        task: a task with labels or scores of texts or pairs of texts.
        data: `builtin`, or a folder below that of `--data`.
        encoder: name of a sentence encoder; `--encoder` gives its path.
        length: maximum number of tokens of a text for our methods; sentence-transformers and SetFit have their own.
        methods: names in `METHODS`; those of one cell are measured together.
        per_class: training examples per class, or per rounded score; None takes all.
        most: training examples to draw them from, the same for every seed; None takes all.
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
        """Names of the models in the result: the methods."""
        return list(self.methods)

    @property
    def by_chance(self) -> bool:
        """Whether the result depends on the seed."""
        return self.per_class is not None or any(METHODS[name].tunes for name in self.methods)

    @property
    def vectors(self) -> str:
        """Name of the folder of cached vectors, shared by all cells with the same texts and encoder."""
        return f"vectors-{settings_digest('vectors', replace(self, methods=(), per_class=None), 0)}"

    def check(self) -> None:
        """Refuse settings that cannot work, before anything is measured.

        Raises:
            BertVisionError: task or methods are unknown or do not fit each other, a method is named twice or none is,
                or a value is below that in `LEAST`.
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
