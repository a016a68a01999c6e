"""QuestionAnswerer: a pack that answers questions, called as the former question-answering pipeline was."""

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
"""Most tokens in an answer unless another number is given, as in the former pipeline."""


@final
class QuestionAnswerer:
    """Answers questions about texts; takes and gives what `pipeline("question-answering")` of transformers did.

    Attributes:
        pack: the pack that it answers with.
    """

    def __init__(self, pack: PackFolder, *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load a pack's encoder and heads.

        Args:
            pack: pack for a task whose answers stand in a text.
            encoder: path or name of the encoder; None takes the one that the pack names.
            device: device to compute on.

        Raises:
            BertVisionError: the pack is for something else, or its encoder cannot be had.
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
        """Load a pack by its folder or by its name on the hub; None takes the pack that is shipped.

        Raises:
            BertVisionError: there is none, it is for something else, or that runtime does not run it.
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
    ) -> Any:  # noqa: ANN401 - its form depends on what is asked, as in the pipeline
        """Answer questions about their contexts.

        Args:
            inputs: `{"question": …, "context": …}`, several of them, a list or a generator of them, or a question and a
                context.
            question: one, or several.
            context: one for all questions, or one for each.
            data: the same as `inputs`, by keyword.
            top_k: most answers to each question.
            doc_stride: tokens that two neighbouring windows of a long context share.
            max_answer_len: most tokens in an answer.
            max_seq_len: most tokens in a window.
            max_question_len: most tokens of a question.
            handle_impossible_answer: whether "" may be an answer; it comes first where the pack's threshold says that
                there is none.
            align_to_words: widen answers to whole words.

        Returns:
            `{"score", "start", "end", "answer"}`; a list of them if a question has several; and for several questions a
            list of what each would get.

        Raises:
            BertVisionError: something is missing, empty or no text.
        """
        if top_k < 1:
            raise BertVisionError(f"top_k is {top_k}, at least 1 is expected.")
        pairs = _pairs(inputs, question, context, data)
        options = self._options(doc_stride, max_seq_len, max_question_len)
        said = self.answers(pairs, best=top_k, limit=max_answer_len, options=options, whole_words=align_to_words)
        results = [
            _result(said, row, text, top_k, impossible=handle_impossible_answer) for row, (_, text) in enumerate(pairs)
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
        """What the pack says to pairs of a question and a context.

        Args:
            pairs: questions with their contexts; those with the same context share its tokens.
            best: most answers to each question.
            limit: most tokens in an answer.
            options: options of token windows; None takes the pack's.
            whole_words: widen answers to whole words.

        Raises:
            BertVisionError: one of them is empty, or windows leave no room.
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
        given = self.pack.card.windows
        longest = given.length if length is None else length
        # the former pipeline's rule for windows of another length than the usual
        usual = given.stride if length is None else min(longest // 2, given.stride)
        shared = usual if stride is None else stride
        if question is None:  # short windows take short questions: it is cut where no context would fit beside it
            room = longest - self._models.tokenizer.pair.specials - shared - 1
            question = min(given.question, max(1, room))
        return WindowOptions(length=longest, stride=shared, question=question)


def _pairs(
    inputs: tuple[QuestionInput | Iterable[QuestionInput] | str, ...],
    question: str | Sequence[str] | None,
    context: str | Sequence[str] | None,
    data: QuestionInput | Iterable[QuestionInput] | None,
) -> list[tuple[str, str]]:
    """Questions with their contexts, however they were handed over."""
    several: Iterable[object] | None = inputs or None
    match inputs, data:
        case (str(asked), str(text)), _:
            return [(asked, text)]
        case (Mapping() | str(),), _:
            pass
        case (Iterable() as listed,), _:
            several = listed
        case (), Mapping():
            several = [data]
        case (), Iterable():
            several = data
    return _match(question, context) if several is None else [_pair(one) for one in several]


def _match(question: str | Sequence[str] | None, context: str | Sequence[str] | None) -> list[tuple[str, str]]:
    """One question with one context, several with one, or as many of each."""
    match question, context:
        case str(), str():
            return [(question, context)]
        case list() | tuple(), str():
            return [(one, context) for one in question]
        case list() | tuple(), list() | tuple() if len(question) == len(context):
            return list(zip(question, context, strict=True))
        case list() | tuple(), list() | tuple():
            raise BertVisionError(f"{len(question)} questions and {len(context)} contexts: one each, or one for all.")
    raise BertVisionError(
        'a question and a context are expected: question="…", context="…", or {"question": …, "context": …}.'
    )


def _pair(one: object) -> tuple[str, str]:
    match one:
        case {"question": str(question), "context": str(context)}:
            return question, context
        case _:
            raise BertVisionError(f'{{"question": …, "context": …}} with two texts is expected, got {one!r}.')


def _result(said: SpanAnswers, row: int, context: str, top: int, *, impossible: bool) -> Answered | list[Answered]:
    answers: list[Answered] = [
        {"score": span.score, "start": span.start, "end": span.end, "answer": context[span.start : span.end]}
        for span in said.spans[row]
    ]
    if impossible:
        nothing = {"score": said.null[row], "start": 0, "end": 0, "answer": ""}
        # behind the answers that are more probable, but never first against the threshold
        place = 0 if said.silent[row] else max(1, sum(one["score"] >= said.null[row] for one in answers))
        answers.insert(place, nothing)
    answers = answers[:top]
    return answers[0] if len(answers) == 1 else answers
