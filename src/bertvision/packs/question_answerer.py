"""QuestionAnswerer: a pack with the interface of transformers' former `question-answering` pipeline."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, final

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import as_spans
from bertvision.packs.inputs import make_questions, question_windows
from bertvision.packs.open_pack import Runtime, load_reader, open_pack
from bertvision.packs.pack_folder import PackFolder
from bertvision.packs.reader import PackQuery
from bertvision.packs.spans import SpanAnswers, decode_answers
from bertvision.tasks.windows import WindowOptions

QuestionInput = Mapping[str, str]
"""{"question": …, "context": …}."""

Answered = dict[str, Any]
"""{"score": …, "start": …, "end": …, "answer": …}."""

PIPELINE_LIMIT = 15
"""Default maximum number of tokens in an answer, as in the former pipeline."""


@final
class QuestionAnswerer:
    """Answers questions about texts; arguments and results are those of `pipeline("question-answering")`.

    Attributes:
        pack: the pack that it answers with.
    """

    def __init__(self, pack: PackFolder, *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load a pack's encoder and heads.

        Args:
            pack: pack for a task of kind `spans`, whose answers are pieces of a text.
            encoder: path or name of the encoder; None takes the one that the pack names.
            device: device to compute on.

        Raises:
            BertVisionError: the pack is for another kind of task, or its encoder cannot be loaded.
        """
        if pack.card.task.kind != "spans":
            raise BertVisionError(
                f"the pack {pack.folder} is for {pack.card.task.name}, which has {pack.card.task.kind} and no answers "
                "in a text. Use TextClassifier or TextScorer."
            )
        self.pack = pack
        self._models = load_reader(pack, encoder=encoder, device=device)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        encoder: str | None = None,
        device: Device = "auto",
        runtime: Runtime = "auto",
    ) -> Self:
        """Load a pack by its folder or by its name on the hub; None loads the pack that comes with the installation.

        Raises:
            BertVisionError: there is no such pack, it is for another kind of task, or it does not run in that runtime.
        """
        return cls(open_pack(name, runtime=runtime), encoder=encoder, device=device)

    def __call__(  # noqa: PLR0913 - the arguments of the former pipeline
        self,
        *inputs: QuestionInput | Iterable[QuestionInput] | str,
        question: str | Sequence[str] | None = None,
        context: str | Sequence[str] | None = None,
        data: QuestionInput | Iterable[QuestionInput] | None = None,
        top_k: int = 1,
        doc_stride: int | None = None,
        max_answer_len: int = PIPELINE_LIMIT,
        max_seq_len: int | None = None,
        max_question_len: int | None = None,
        handle_impossible_answer: bool = False,
        align_to_words: bool = True,
    ) -> Any:  # noqa: ANN401 - one result or a list, depending on the arguments, as in the pipeline
        """Answer questions about their contexts.

        Args:
            inputs: `{"question": …, "context": …}`, several of them, a list or a generator of them, or a question and a
                context.
            question: a question, or several.
            context: one context for all questions, or one for each.
            data: the same as `inputs`, by keyword.
            top_k: maximum number of answers to each question.
            doc_stride: tokens that two neighbouring windows of a long context share; None takes the pack's, but at most
                half of `max_seq_len` if that is given.
            max_answer_len: maximum number of tokens in an answer.
            max_seq_len: maximum number of tokens in a window; None takes the pack's.
            max_question_len: number of tokens to which questions are truncated; None takes the pack's, or fewer if
                windows are too short for it.
            handle_impossible_answer: whether "" may be an answer; it comes first only where the pack's threshold says
                that there is none.
            align_to_words: widen answers to whole words.

        Returns:
            `{"score", "start", "end", "answer"}`; a list of them if the question has several answers; for several
            questions a list with the result for each.

        Raises:
            BertVisionError: a question or context is missing, empty or not a string, or an option is out of range.
        """
        if top_k < 1:
            raise BertVisionError(f"top_k is {top_k}, at least 1 is expected.")
        pairs = _pairs(inputs, question, context, data)
        options = self._options(doc_stride, max_seq_len, max_question_len)
        answers = self.answers(pairs, best=top_k, limit=max_answer_len, options=options, whole_words=align_to_words)
        results = [
            _result(answers, row, text, top_k, impossible=handle_impossible_answer)
            for row, (_, text) in enumerate(pairs)
        ]
        return results[0] if len(results) == 1 else results

    def answers(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        best: int,
        limit: int = PIPELINE_LIMIT,
        options: WindowOptions | None = None,
        whole_words: bool = True,
    ) -> SpanAnswers:
        """The pack's best answers to pairs of a question and a context, with their probabilities.

        Args:
            pairs: (question, context); a context that several questions have is tokenised once.
            best: maximum number of answers to each question.
            limit: maximum number of tokens in an answer.
            options: options of token windows; None takes the pack's.
            whole_words: widen answers to whole words.

        Raises:
            BertVisionError: a question or context is empty or not a string, windows are too short for them or too long
                for the encoder, or `best` or `limit` is below 1.
        """
        if not pairs:
            return SpanAnswers([], [], [])
        card = self.pack.card
        questions = make_questions([question for question, _ in pairs], [context for _, context in pairs])
        windows = question_windows(card, questions, self._models.tokenizer, options)
        (scores,) = self._models.read([PackQuery(0, (windows,))])
        return decode_answers(
            card, windows, questions, as_spans(scores), best=best, limit=limit, whole_words=whole_words
        )

    def _options(self, stride: int | None, length: int | None, question: int | None) -> WindowOptions:
        defaults = self.pack.card.windows
        longest = defaults.length if length is None else length
        # the former pipeline's rule where the length of windows is given
        usual = defaults.stride if length is None else min(longest // 2, defaults.stride)
        overlap = usual if stride is None else stride
        if question is None:  # in short windows it is truncated, so that every window holds new tokens of the context
            room = longest - self._models.tokenizer.pair.specials - overlap - 1
            question = min(defaults.question, max(1, room))
        return WindowOptions(length=longest, stride=overlap, question=question)


def _pairs(
    inputs: tuple[QuestionInput | Iterable[QuestionInput] | str, ...],
    question: str | Sequence[str] | None,
    context: str | Sequence[str] | None,
    data: QuestionInput | Iterable[QuestionInput] | None,
) -> list[tuple[str, str]]:
    """(question, context) pairs from any of the accepted forms of arguments."""
    several: Iterable[object] | None = inputs or None
    match inputs, data:
        case (str(query), str(text)), _:
            return [(query, text)]
        case (Mapping() | str(),), _:
            pass
        case (Iterable() as items,), _:
            several = items
        case (), Mapping():
            several = [data]
        case (), Iterable():
            several = data
    return _match(question, context) if several is None else [_pair(item) for item in several]


def _match(question: str | Sequence[str] | None, context: str | Sequence[str] | None) -> list[tuple[str, str]]:
    """Pair a question with a context, several questions with one context, or equally many of both."""
    match question, context:
        case str(), str():
            return [(question, context)]
        case list() | tuple(), str():
            return [(query, context) for query in question]
        case list() | tuple(), list() | tuple() if len(question) == len(context):
            return list(zip(question, context, strict=True))
        case list() | tuple(), list() | tuple():
            raise BertVisionError(f"{len(question)} questions and {len(context)} contexts: one each, or one for all.")
    raise BertVisionError(
        'a question and a context are expected: question="…", context="…", or {"question": …, "context": …}.'
    )


def _pair(item: object) -> tuple[str, str]:
    match item:
        case {"question": str(question), "context": str(context)}:
            return question, context
        case _:
            raise BertVisionError(f'{{"question": …, "context": …}} with two texts is expected, got {item!r}.')


def _result(answers: SpanAnswers, row: int, context: str, top: int, *, impossible: bool) -> Answered | list[Answered]:
    """The result for one question in the pipeline's form; `impossible` adds "no answer" as "" to its answers."""
    listed: list[Answered] = [
        {"score": span.score, "start": span.start, "end": span.end, "answer": context[span.start : span.end]}
        for span in answers.spans[row]
    ]
    if impossible:
        null = answers.null[row]
        # in the order of probabilities, except that the threshold alone decides whether it comes first
        place = 0 if answers.silent[row] else max(1, sum(answer["score"] >= null for answer in listed))
        listed.insert(place, {"score": null, "start": 0, "end": 0, "answer": ""})
    listed = listed[:top]
    return listed[0] if len(listed) == 1 else listed
