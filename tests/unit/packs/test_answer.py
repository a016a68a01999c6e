"""answer_question looks into many texts, and says where the answer stands, or that there is none."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bertvision.cli import answer as answer_cli
from bertvision.cli import predict as predict_cli
from bertvision.errors import BertVisionError, DataError
from bertvision.packs.answer import READ, Document, answer_question, read_documents
from bertvision.packs.predict import BATCH
from bertvision.packs.question_answerer import QuestionAnswerer
from bertvision.packs.spans import Span, SpanAnswers


def answerer(word: str, seen: list[str]) -> QuestionAnswerer:
    """Finds a word, and keeps what it was given; silent about passages without it."""

    def answers(pairs: Any, *, best: int, limit: int) -> SpanAnswers:  # noqa: ANN401, ARG001
        contexts = [context for _, context in pairs]
        seen.extend(contexts)
        there = [word in context for context in contexts]
        spans = [
            [Span(context.find(word), context.find(word) + len(word), 0.9 - row / 100)] if yes else [Span(0, 1, 0.95)]
            for row, (context, yes) in enumerate(zip(contexts, there, strict=True))
        ]
        return SpanAnswers(spans, [0.3] * len(there), [not yes for yes in there])

    return cast("QuestionAnswerer", SimpleNamespace(answers=answers))


def test_an_answer_has_its_file_and_its_place_in_it() -> None:
    text = "Nothing here. " * 200 + "The walrus is called Ada. " + "Nor here. " * 200
    documents = [Document("a.txt", "Quiet. " * 300), Document("b.txt", text)]
    found = answer_question(answerer("Ada", []), "What is the walrus called?", documents)
    best = found.as_json()
    assert (best["answer"], best["file"], best["score"]) == ("Ada", "b.txt", 0.9)
    assert text[best["start"] : best["end"]] == "Ada"
    assert list(best) == ["answer", "score", "start", "end", "file", "alternatives"]


def test_only_the_best_passages_are_read() -> None:
    seen: list[str] = []
    documents = [Document(f"{number}.txt", f"number {number} " * 20) for number in range(100)]
    documents[77] = Document("77.txt", "a walrus called Ada")
    found = answer_question(answerer("Ada", seen), "Which walrus?", documents, read=5)
    assert (len(seen), found.read, found.passages) == (5, 5, 100)
    assert found.best.file == "77.txt"


def test_documents_with_the_same_name_keep_their_answers_apart() -> None:
    documents = [Document("a", "Ada the walrus"), Document("a", "Bob the walrus")]
    found = answer_question(answerer("the", []), "Which walrus?", documents)
    assert len([found.best, *found.alternatives]) == 2


def test_many_passages_are_read_some_at_a_time_and_told_of() -> None:
    seen: list[str] = []
    told: list[tuple[int, int]] = []
    documents = [Document(f"{number}.txt", f"walrus {number}") for number in range(600)]
    documents[599] = Document("599.txt", "a walrus called Ada, and others that have no names of their own " * 9)
    found = answer_question(
        answerer("Ada", seen), "Which walrus?", documents, read=600, tell=lambda done, total: told.append((done, total))
    )
    assert told == [(256, 600), (512, 600), (600, 600)]
    assert (len(seen), len(set(seen)), found.read) == (600, 600, 600)
    assert found.best.file == "599.txt"


def test_silence_everywhere_means_no_answer_with_the_likeliest_as_alternatives() -> None:
    documents = [Document("a", "one two"), Document("b", "three")]
    found = answer_question(answerer("zebra", []), "what?", documents, top=2).as_json()
    assert {name: found[name] for name in ("answer", "score", "start", "end", "file")} == {
        "answer": None, "score": 0.3, "start": None, "end": None, "file": None,
    }  # fmt: skip
    assert len(found["alternatives"]) == 1
    assert found["alternatives"][0]["file"] == "a"


def test_an_answer_in_two_overlapping_passages_counts_once() -> None:
    text = "Quiet words. " * 85 + "Ada sleeps. " + "Quiet words. " * 30
    found = answer_question(answerer("Ada", []), "Ada?", [Document("a", text)])
    assert found.passages > 1
    places = [(one.start, one.end) for one in (found.best, *found.alternatives)]
    assert len(set(places)) == len(places)


def test_of_an_answer_found_twice_the_passage_that_is_sure_of_it_counts() -> None:
    text = "Quiet words. " * 85 + "Ada sleeps. " + "Quiet words. " * 30

    def answers(pairs: Any, *, best: int, limit: int) -> SpanAnswers:  # noqa: ANN401, ARG001
        places = [context.find("Ada") for _, context in pairs]
        spans = [[Span(at, at + 3, 0.5 + row / 10)] if at >= 0 else [] for row, at in enumerate(places)]
        return SpanAnswers(spans, [0.3] * len(spans), [row > 0 for row in range(len(spans))])

    both = cast("QuestionAnswerer", SimpleNamespace(answers=answers))
    found = answer_question(both, "Ada?", [Document("a", text)])
    assert (found.best.text, found.best.score) == ("Ada", 0.5)


def test_defaults_of_the_commands_are_those_of_the_functions() -> None:
    assert answer_cli.Options(question="").passages == READ
    assert predict_cli.Options(task="", file="").batch == BATCH


@pytest.mark.parametrize(
    ("given", "said"),
    [({"top": -1}, "--top is -1"), ({"read": 0}, "--passages is 0"), ({"top": 0, "read": 9}, "--top is 0")],
)
def test_numbers_that_are_too_small_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BertVisionError, match=rf"^{said}, at least 1 is expected\.$"):
        answer_question(answerer("a", []), "a?", [Document("a", "a")], **given)


def test_no_text_is_said() -> None:
    with pytest.raises(BertVisionError, match="there is no text to look for an answer in"):
        answer_question(answerer("a", []), "a?", [Document("a", "\n")])


def test_a_folder_gives_all_its_texts_and_names_the_others(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.txt").write_text("Ada", encoding="utf-8")
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / ".hidden").write_text("no", encoding="utf-8")
    documents, skipped = read_documents(tmp_path)
    assert documents == [Document(str(tmp_path / "below" / "a.txt"), "Ada")]
    assert skipped == [str(tmp_path / "b.bin")]
    (tmp_path / "below" / "a.txt").unlink()
    with pytest.raises(DataError, match="holds no file with text"):
        read_documents(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        read_documents(tmp_path / "none.txt")
