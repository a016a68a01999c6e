"""TextClassifier and TextScorer: packs with the interface of transformers' `text-classification` pipeline."""

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
"""Tags with a higher probability than this are predicted."""

SCORE = "score"
"""The label in the results of `TextScorer`."""


class _TextModel:
    """A pack whose result for a text is one row of outputs."""

    kinds: ClassVar[tuple[TaskKind, ...]]
    """Kinds of tasks that the class accepts."""

    def __init__(self, pack: PackFolder, *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load a pack's encoder and heads.

        Args:
            pack: pack for a task of one of the accepted kinds.
            encoder: path or name of the encoder; None takes the one that the pack names.
            device: device to compute on.

        Raises:
            BertVisionError: the pack is for another kind of task, or its encoder cannot be loaded.
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
            BertVisionError: there is no such pack, it is for another kind of task, or it does not run in that runtime.
        """
        return cls(open_pack(name, runtime=runtime), encoder=encoder, device=device)

    def rows(self, inputs: Sequence[TextInput]) -> NDArray[np.float32]:
        """The outputs for every text or pair, (texts, outputs); with several heads their mean, see `join_heads`.

        Raises:
            BertVisionError: an input is no text, or a single text where the pack reads pairs, or a pair where it does
                not.
        """
        if not inputs:
            return np.empty((0, self.pack.card.task.outputs), dtype=np.float32)
        card = self.pack.card
        windows = text_windows(card, make_texts(card, inputs), self._models.tokenizer)
        (rows,) = self._models.read([PackQuery(0, windows)])
        return as_rows(rows)


@final
class TextClassifier(_TextModel):
    """Labels texts or pairs; arguments and results are those of `pipeline("text-classification")`.

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
    ) -> Any:  # noqa: ANN401 - one result or a list, depending on the arguments, as in the pipeline
        """The most probable label of every text.

        Args:
            inputs: a text, `{"text": …, "text_pair": …}`, or a list of these.
            top_k: maximum number of labels for each text, most probable first; None gives all; by default only the best
                one, not in a list of its own.
            function_to_apply: function from outputs to probabilities; None takes softmax for labels, sigmoid for tags.

        Returns:
            As in transformers: `[{"label", "score"}]` for a text, `{"label", "score"}` for a dict, a list of such
            dictionaries for a list; with `top_k`, a list of labels for each input.

        Raises:
            BertVisionError: as `rows`, or an option has an invalid value.
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
    """Scores texts or pairs; results have the form of `pipeline("text-classification")` for models with one output.

    Attributes:
        pack: the pack that it scores with.
    """

    kinds = ("scores",)

    def __call__(self, inputs: TextInput | Sequence[TextInput]) -> Any:  # noqa: ANN401 - one result or a list, depending on the arguments
        """The score of every text or pair, on the scale of the task.

        Args:
            inputs: a text, `{"text": …, "text_pair": …}`, or a list of these.

        Returns:
            `[{"label": "score", "score": …}]` for a text, `{"label": "score", "score": …}` for a dict, a list of such
            dictionaries for a list.

        Raises:
            BertVisionError: as `rows`.
        """
        several = [inputs] if isinstance(inputs, str | Mapping) else list(inputs)
        scored = give_scores(self.rows(several))
        return scored[0] if isinstance(inputs, Mapping) else scored


def rank_labels(card: PackCard, rows: NDArray[np.float32], apply: Apply | None = None) -> list[list[Scored]]:
    """All labels with their probabilities for every row, most probable first.

    Args:
        card: card of the pack, with the labels.
        rows: (texts, outputs).
        apply: function from outputs to probabilities; None takes softmax for labels, sigmoid for tags.

    Raises:
        BertVisionError: there is no such function.
    """
    match apply or ("sigmoid" if card.task.kind == "tags" else "softmax"):
        case "softmax":
            values = np.exp(class_log_probabilities(rows)) if len(rows) else rows
        case "sigmoid":
            values = 1.0 / (1.0 + np.exp(-rows))
        case "none":
            values = rows
        case other:
            raise BertVisionError(f"function_to_apply is '{other}', softmax, sigmoid or none is expected.")
    labels = card.task.labels
    order = np.argsort(-values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1).astype(np.float64).tolist()
    return [
        [{"label": labels[number], "score": score} for number, score in zip(numbers, scores, strict=True)]
        for numbers, scores in zip(order.tolist(), ranked, strict=True)
    ]


def give_scores(rows: NDArray[np.float32]) -> list[Scored]:
    """The results of `TextScorer` for rows, (texts, 1)."""
    return [{"label": SCORE, "score": value} for value in rows[:, 0].astype(np.float64).tolist()]
