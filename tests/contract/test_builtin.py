"""The built-in sets are what they claim to be: whole, balanced, without repeats."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.load import load_task
from bertvision.tasks.sources import BUILTIN_FOLDER, BUILTIN_LAYOUT

SPLITS = ("train", "dev")
TABLES = {"sentiment2": "sst2", "sentiment5": "sst5", "paraphrase": "quora", "similarity": "sts"}


def questions(split: str) -> Questions:
    examples = load_task("squad2", data="builtin").splits[split]
    assert isinstance(examples, Questions)
    return examples


def table(task: str, split: str) -> Texts:
    examples = load_task(task, data="builtin").splits[split]
    assert isinstance(examples, Texts)
    return examples


def raw(split: str) -> list[dict[str, Any]]:
    content = json.loads((BUILTIN_FOLDER / "qa" / f"{split}.json").read_text(encoding="utf-8"))
    return [paragraph for article in content["data"] for paragraph in article["paragraphs"]]


def test_every_folder_has_a_layout() -> None:
    assert {folder.name for folder in Path(BUILTIN_FOLDER).iterdir() if folder.is_dir()} == set(BUILTIN_LAYOUT)


def test_there_are_enough_passages_and_questions() -> None:
    assert sum(len(questions(split).contexts) for split in SPLITS) >= 60
    assert sum(len(questions(split)) for split in SPLITS) >= 600


@pytest.mark.parametrize("split", SPLITS)
def test_about_45_percent_of_the_questions_have_no_answer(split: str) -> None:
    assert 0.42 <= 1 - questions(split).answerable.mean() <= 0.48


def test_no_passage_is_in_both_splits() -> None:
    assert not set(questions("train").contexts) & set(questions("dev").contexts)
    assert not set(questions("train").titles) & set(questions("dev").titles)


def test_no_question_is_asked_twice() -> None:
    asked = Counter(text.lower().strip() for split in SPLITS for text in questions(split).questions)
    assert max(asked.values()) == 1


@pytest.mark.parametrize("split", SPLITS)
def test_passages_are_prose_of_some_length(split: str) -> None:
    for context in questions(split).contexts:
        assert 80 <= len(context.split()) <= 160
        assert context.count(".") >= 4
        assert context == " ".join(context.split())


@pytest.mark.parametrize("split", SPLITS)
def test_every_unanswerable_question_has_a_plausible_answer_in_its_passage(split: str) -> None:
    for paragraph in raw(split):
        for question in paragraph["qas"]:
            for answer in question.get("plausible_answers", []):
                start, text = answer["answer_start"], answer["text"]
                assert paragraph["context"][start : start + len(text)] == text
            assert question["is_impossible"] == bool(question.get("plausible_answers"))


@pytest.mark.parametrize("split", SPLITS)
def test_answers_have_clean_edges_and_questions_end_as_such(split: str) -> None:
    examples = questions(split)
    assert all(text.endswith("?") for text in examples.questions)
    for answer in (answer for answers in examples.answers for answer in answers):
        assert answer.text == answer.text.strip(" .,;:")
        assert len(answer.text.split()) <= 15


def test_questions_begin_in_many_ways() -> None:
    words = Counter(text.split()[0].lower() for text in questions("train").questions)
    assert len(words) >= 15
    assert max(words.values()) < 0.35 * len(questions("train"))


@pytest.mark.parametrize("task", TABLES.values())
def test_tables_have_at_least_200_rows_without_repeats(task: str) -> None:
    seen: Counter[tuple[str, ...]] = Counter()
    for split in SPLITS:
        examples = table(task, split)
        for number, text in enumerate(examples.texts):
            pair = [] if examples.pairs is None else [examples.pairs[number]]
            seen[tuple(sorted(part.lower().strip() for part in [text, *pair]))] += 1
    assert seen.total() >= 200
    assert max(seen.values()) == 1


@pytest.mark.parametrize("task", ["sst2", "sst5", "quora"])
@pytest.mark.parametrize("split", SPLITS)
def test_labels_are_balanced(task: str, split: str) -> None:
    counts = np.bincount(table(task, split).targets.astype(np.int64))
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("split", SPLITS)
def test_similarities_are_spread_over_the_whole_range(split: str) -> None:
    counts, _ = np.histogram(table("sts", split).targets, bins=5, range=(0, 5))
    assert counts.min() >= 0.12 * counts.sum()


def test_sets_that_share_a_form_share_no_text() -> None:
    two, five = ({text.lower() for split in SPLITS for text in table(task, split).texts} for task in ("sst2", "sst5"))
    assert not two & five
