"""TextClassifier and TextScorer: packs that label or score texts, called as transformers' pipeline is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.evaluation.ensemble import class_log_probabilities
from bertvision.evaluation.outputs import as_rows
from bertvision.packs.card import PackCard
from bertvision.packs.inputs import TextInput, make_texts, text_windows
from bertvision.packs.open_pack import Runtime, load_reader, open_pack
from bertvision.packs.pack_folder import PackFolder
from bertvision.packs.reader import PackQuery
from bertvision.tasks.task import TaskKind

Scored = dict[str, Any]
"""{"label": …, "score": …}."""

Apply = Literal["softmax", "sigmoid", "none"]

_CLASSES: dict[TaskKind, str] = {
    "spans": "QuestionAnswerer",
    "labels": "TextClassifier",
    "tags": "TextClassifier",
    "scores": "TextScorer",
}

LIKELY = 0.5
"""Tags that are likelier than this are chosen."""

SCORE = "score"
"""The one label of a scorer."""


class _TextModel:
    """What both share: a pack, and one row of outputs per text."""

    kinds: ClassVar[tuple[TaskKind, ...]]
    """Kinds of tasks that it is for."""

    def __init__(self, pack: PackFolder, *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load a pack's encoder and heads.

        Args:
            pack: pack for a task of the right kind.
            encoder: path or name of the encoder; None takes the one that the pack names.
            device: device to compute on.

        Raises:
            BertVisionError: the pack is for something else, or its encoder cannot be had.
        """
        task = pack.card.task
        if task.kind not in self.kinds:
            raise BertVisionError(
                f"the pack {pack.folder} is for {task.name}, which has {task.kind}. Use {_CLASSES[task.kind]}."
            )
        self.pack = pack
        self._models = load_reader(pack, encoder=encoder, device=device)

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, encoder: str | None = None, device: Device = "auto", runtime: Runtime = "auto"
    ) -> Self:
        """Load a pack by its folder, or by its name on the hub.

        Raises:
            BertVisionError: there is none, it is for something else, or that runtime does not run it.
        """
        return cls(open_pack(name, runtime=runtime), encoder=encoder, device=device)

    def rows(self, inputs: Sequence[TextInput]) -> NDArray[np.float32]:
        """The outputs of every text or pair, (texts, outputs).

        Raises:
            BertVisionError: a text is missing, or one too many.
        """
        if not inputs:
            return np.empty((0, self.pack.card.task.outputs), dtype=np.float32)
        card = self.pack.card
        windows = text_windows(card, make_texts(card, inputs), self._models.tokenizer)
        (rows,) = self._models.read([PackQuery(0, windows)])
        return as_rows(rows)


@final
class TextClassifier(_TextModel):
    """Labels texts or pairs; takes and gives what `pipeline("text-classification")` of transformers does.

    Attributes:
        pack: the pack that it labels with.
    """

    kinds = ("labels", "tags")

    def __call__(
        self,
        inputs: TextInput | Sequence[TextInput],
        *,
        top_k: int | Literal["best"] | None = "best",
        function_to_apply: Apply | None = None,
    ) -> Any:  # noqa: ANN401 - its form depends on what is asked, as in the pipeline
        """The likeliest label of every text.

        Args:
            inputs: a text, `{"text": …, "text_pair": …}`, or a list of such.
            top_k: how many labels to give, the likeliest first, None for all; left out, the best one alone.
            function_to_apply: function from outputs to probabilities; None takes softmax for labels, sigmoid for tags.

        Returns:
            As in transformers: for a text `[{"label", "score"}]`, for a dict `{"label", "score"}`, for a list a list of
            them; with `top_k` a list of labels for each.

        Raises:
            BertVisionError: a text is missing, or one too many.
        """
        if isinstance(top_k, int) and top_k < 1:
            raise BertVisionError(f"top_k is {top_k}, at least 1 is expected.")
        single = isinstance(inputs, str | Mapping)
        several = [inputs] if isinstance(inputs, str | Mapping) else list(inputs)
        ranked = rank_labels(self.pack.card, self.rows(several), function_to_apply)
        if top_k == "best":
            best = [labels[0] for labels in ranked]
            return best[0] if isinstance(inputs, Mapping) else best
        kept = [labels[:top_k] for labels in ranked]
        return kept[0] if single else kept


@final
class TextScorer(_TextModel):
    """Scores texts or pairs, in the form that `pipeline("text-classification")` gives for one output.

    Attributes:
        pack: the pack that it scores with.
    """

    kinds = ("scores",)

    def __call__(self, inputs: TextInput | Sequence[TextInput]) -> Any:  # noqa: ANN401 - its form depends on what is asked, as in the pipeline
        """The score of every text or pair, on the scale of the task.

        Args:
            inputs: a text, `{"text": …, "text_pair": …}`, or a list of such.

        Returns:
            `[{"label": "score", "score": …}]`; for a dict the one in it; for a list as many as there are.

        Raises:
            BertVisionError: a text is missing, or one too many.
        """
        several = [inputs] if isinstance(inputs, str | Mapping) else list(inputs)
        found = give_scores(self.rows(several))
        return found[0] if isinstance(inputs, Mapping) else found


def rank_labels(card: PackCard, rows: NDArray[np.float32], apply: Apply | None = None) -> list[list[Scored]]:
    """Every label of every row with its probability, the likeliest first."""
    match apply or ("sigmoid" if card.task.kind == "tags" else "softmax"):
        case "softmax":
            shares = np.exp(class_log_probabilities(rows)) if len(rows) else rows
        case "sigmoid":
            shares = 1.0 / (1.0 + np.exp(-rows))
        case "none":
            shares = rows
        case other:
            raise BertVisionError(f"function_to_apply is '{other}', softmax, sigmoid or none is expected.")
    words = card.task.labels
    order = np.argsort(-shares, axis=1, kind="stable")
    sorted_shares = np.take_along_axis(shares, order, axis=1).astype(np.float64).tolist()
    return [
        [{"label": words[number], "score": share} for number, share in zip(numbers, values, strict=True)]
        for numbers, values in zip(order.tolist(), sorted_shares, strict=True)
    ]


def give_scores(rows: NDArray[np.float32]) -> list[Scored]:
    """The score of every row."""
    return [{"label": SCORE, "score": value} for value in rows[:, 0].astype(np.float64).tolist()]
