"""SQuAD's JSON: every question is read, or reported with its place and id."""

import json
from pathlib import Path

import pytest

from bertvision.errors import DataError
from bertvision.tasks.examples import Answer, Questions
from bertvision.tasks.files import BadRow
from bertvision.tasks.squad import QuestionsBuilder, is_squad, read_questions
from bertvision.tasks.task import SquadLayout

CONTEXT = "Ada wrote the first program in 1843."


def question(key: object, *answers: object, text: object = "Who?", **more: object) -> dict[str, object]:
    return {"id": key, "question": text, "answers": list(answers), **more}


def answer(text: str, start: object) -> dict[str, object]:
    return {"text": text, "answer_start": start}


def squad(*questions: object, context: object = CONTEXT) -> dict[str, object]:
    return {"version": "x", "data": [{"title": "Ada", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def read(folder: Path, content: object, *, answerable_only: bool = False) -> tuple[Questions, list[BadRow]]:
    path = folder / "x.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return read_questions(SquadLayout(answerable_only=answerable_only), path)


def problems(folder: Path, content: object, *, answerable_only: bool = False) -> list[str]:
    return [str(row).rpartition("/")[2] for row in read(folder, content, answerable_only=answerable_only)[1]]


def test_questions_are_read_with_answers_contexts_and_titles(tmp_path: Path) -> None:
    content = {
        "data": [
            {
                "title": "Ada",
                "paragraphs": [
                    {"context": CONTEXT, "qas": [question("a", answer("Ada", 0), answer("1843", 31)), question(2)]},
                    {"context": "Bob slept.", "qas": [question("c", answer("Bob", 0), is_impossible=False)]},
                ],
            },
            {"paragraphs": [{"context": CONTEXT, "qas": [question("d", is_impossible=True)]}]},
        ]
    }
    questions, bad = read(tmp_path, content)
    assert questions.ids == ["a", "2", "c", "d"]
    assert questions.answers == [(Answer("Ada", 0), Answer("1843", 31)), (), (Answer("Bob", 0),), ()]
    assert questions.contexts == [CONTEXT, "Bob slept."]
    assert questions.titles == ["Ada", "Ada"]
    assert questions.context_index.tolist() == [0, 0, 1, 0]
    assert questions.answerable.tolist() == [True, False, True, False]
    assert bad == []


def test_plausible_answers_are_no_answers(tmp_path: Path) -> None:
    plausible = question("a", is_impossible=True, plausible_answers=[answer("Ada", 0)])
    questions, _ = read(tmp_path, squad(plausible))
    assert questions.answers == [()]


def test_offsets_count_characters_not_bytes(tmp_path: Path) -> None:
    questions, bad = read(tmp_path, squad(question("a", answer("Ada", 5)), context="é😀é. Ada wrote."))
    assert (questions.answers, bad) == ([(Answer("Ada", 5),)], [])


@pytest.mark.parametrize("content", [[], "text", {}, {"data": {}}, {"data": None}])
def test_a_file_that_is_not_squads_shows_the_form_that_is_expected(tmp_path: Path, content: object) -> None:
    with pytest.raises(DataError, match=r'x\.json: SQuAD\'s JSON is expected, an object \{"data": \[\{"title"'):
        read(tmp_path, content)


@pytest.mark.parametrize("article", [5, {"title": "x"}, {"paragraphs": "text"}])
def test_an_article_without_paragraphs_is_a_bad_row(tmp_path: Path, article: object) -> None:
    good = {"paragraphs": [{"context": CONTEXT, "qas": [question("a")]}]}
    questions, bad = read(tmp_path, {"data": [article, good]})
    assert questions.ids == ["a"]
    assert str(bad[0]).endswith("x.json:data[0]: an article with a list 'paragraphs' is expected")


@pytest.mark.parametrize("paragraph", [None, {"qas": []}, {"context": 5, "qas": []}, {"context": "c", "qas": {}}])
def test_a_paragraph_without_context_or_questions_is_a_bad_row(tmp_path: Path, paragraph: object) -> None:
    assert problems(tmp_path, {"data": [{"paragraphs": [paragraph]}]}) == [
        "x.json:data[0].paragraphs[0]: a paragraph with the text 'context' and the list 'qas' is expected"
    ]


SHAPE = "a question with 'id', 'question' and the list 'answers' is expected"
ANSWER = "an answer with the text 'text' and the number 'answer_start' is expected"
BAD_QUESTIONS: list[tuple[object, str]] = [
    ("text", f": {SHAPE}"),
    ({"question": "Who?", "answers": []}, f": {SHAPE}"),
    (question(None), f" (id None): {SHAPE}"),
    (question("a", text=7), f" (id a): {SHAPE}"),
    ({"id": "a", "question": "Who?", "answers": None}, f" (id a): {SHAPE}"),
    (question("a", text="  "), " (id a): the question is empty"),
    (question("a", text="\ud800?"), " (id a): character 0 is half of a surrogate pair (\\ud800)"),
    (question("a", "Ada"), f" (id a): {ANSWER}"),
    (question("a", {"text": "Ada"}), f" (id a): {ANSWER}"),
    (question("a", answer("Ada", "0")), f" (id a): {ANSWER}"),
    (question("a", answer("da", True)), f" (id a): {ANSWER}"),
    (question("a", answer(" ", 3)), f" (id a): {ANSWER}"),
    (question("a", answer("Ada", 1)), " (id a): answer 'Ada' is not at character 1 of its context, 'da ' is"),
    (question("a", answer("1843", -5)), " (id a): answer '1843' is not at character -5 of its context, '' is"),
    (question("a", answer("Ada", 10**30)), f" (id a): answer 'Ada' is not at character {10**30} of its context, '' is"),
    (question("a", is_impossible="no"), " (id a): 'is_impossible' is 'no', true or false is expected"),
    (question("a", is_impossible=None), " (id a): 'is_impossible' is None, true or false is expected"),
    (question("a", answer("Ada", 0), is_impossible=True), " (id a): 'is_impossible' is true, but there are answers"),
    (question("a", is_impossible=False), " (id a): 'is_impossible' is false, but there is no answer"),
]


@pytest.mark.parametrize(("bad", "problem"), BAD_QUESTIONS, ids=range(len(BAD_QUESTIONS)))
def test_a_bad_question_is_named_and_its_neighbours_are_read(tmp_path: Path, bad: object, problem: str) -> None:
    content = squad(question("before", answer("Ada", 0)), bad, question("after"))
    assert problems(tmp_path, content) == [f"x.json:data[0].paragraphs[0].qas[1]{problem}"]
    assert read(tmp_path, content)[0].ids == ["before", "after"]


def test_one_wrong_answer_among_right_ones_makes_the_question_bad(tmp_path: Path) -> None:
    assert len(problems(tmp_path, squad(question("a", answer("Ada", 0), answer("Ada", 2))))) == 1


def test_an_id_that_comes_twice_is_named_with_its_first_place(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, squad(question("1"), question(1)))
    assert problem.endswith("x.json:data[0].paragraphs[0].qas[0] already")
    assert len(read(tmp_path, squad(question("1"), question(1)))[0]) == 1


def test_a_bad_question_leaves_its_id_and_context_behind(tmp_path: Path) -> None:
    questions, bad = read(tmp_path, squad(question("a", answer("Bob", 0)), question("a", answer("Ada", 0))))
    assert (questions.ids, questions.contexts, len(bad)) == (["a"], [CONTEXT], 1)


def test_a_context_that_no_tokenizer_can_hold_makes_its_questions_bad(tmp_path: Path) -> None:
    assert problems(tmp_path, squad(question("a"), context="half \udfff")) == [
        "x.json:data[0].paragraphs[0].qas[0] (id a): character 5 is half of a surrogate pair (\\udfff)"
    ]


def test_version_1_has_no_question_without_an_answer(tmp_path: Path) -> None:
    content = squad(question("a", answer("Ada", 0)), question("b"))
    (problem,) = problems(tmp_path, content, answerable_only=True)
    assert problem.startswith("x.json:data[0].paragraphs[0].qas[1] (id b): no answer, but SQuAD 1.1 has one for every")
    assert problem.endswith("for this file use the task squad2")
    assert problems(tmp_path, content) == []


def test_the_first_title_of_a_context_is_kept() -> None:
    builder = QuestionsBuilder()
    builder.add("x:0", "first", CONTEXT, question("a"))
    builder.add("x:1", "second", CONTEXT, question("b"))
    assert builder.build().titles == ["first"]


@pytest.mark.parametrize(
    ("content", "nested"),
    [
        (squad(), True),
        ({"data": [{"paragraphs": None}, 5]}, True),
        ({"data": []}, False),
        ({"data": [{"text": "x"}]}, False),
        ([{"paragraphs": []}], False),
        (None, False),
    ],
)
def test_squads_form_is_known_by_its_first_article(content: object, nested: bool) -> None:  # noqa: FBT001 - a case
    assert is_squad(content) is nested
