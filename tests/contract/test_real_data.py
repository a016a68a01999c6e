"""The public data sets are read to the last row, without a bad one."""

from pathlib import Path

import pytest

from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.load import load_task
from bertvision.tasks.own import OwnColumns

ROWS = {
    "squad2": {"train": 17_630, "dev": 2_353},
    "answerable": {"train": 17_630, "dev": 2_353},
    "cola": {"train": 8_551, "dev": 1_043},
    "sst2": {"train": 67_349, "dev": 872},
    "mrpc": {"train": 3_668, "dev": 408},
    "stsb": {"train": 5_749, "dev": 1_500},
    "rte": {"train": 2_490, "dev": 277},
    "wnli": {"train": 635, "dev": 71},
    "qnli": {"dev": 5_463},
    "sst5": {"train": 8_544, "dev": 1_101},
    "sts": {"train": 6_040, "dev": 863},
    "quora": {"train": 15_000, "dev": 3_000},
}
QA_EXTRA = {
    "covidqa": 1_353,
    "friendsqa-dev-test": 2_379,
    "molweni": 2_715,
    "policyqa-dev-test": 7_867,
    "qamr-dev-test": 33_701,
    "quoref-contrast": 1_105,
    "squadshifts-amazon_reviews": 9_708,
    "squadshifts-new_wiki": 7_738,
    "squadshifts-reddit": 9_674,
    "subjqa": 7_267,
}


@pytest.mark.realdata
@pytest.mark.parametrize("name", ROWS)
def test_every_row_is_read_and_none_is_bad(real_data: Path, name: str) -> None:
    data = load_task(name, data=real_data)
    assert {split: len(examples) for split, examples in data.splits.items()} == ROWS[name]
    assert not any(data.bad.values())


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "copies"),
    [("cola", 16), ("sst2", 0), ("mrpc", 0), ("stsb", 6), ("rte", 0), ("wnli", 0), ("sst5", 2), ("sts", 13)],
)
def test_complete_sets_need_no_notice_but_of_copies(real_data: Path, name: str, copies: int) -> None:
    notices = load_task(name, data=real_data).notices
    assert len(notices) == bool(copies)
    if copies:
        assert f"{name}: {copies} of {ROWS[name]['dev']:,} dev examples stand in train, too" in notices[0]


@pytest.mark.realdata
def test_what_is_not_complete_is_said_in_notices(real_data: Path) -> None:
    assert load_task("qnli", data=real_data).notices == ("qnli has no train split here (looked for train.tsv).",)
    assert load_task("squad2", data=real_data).notices == (
        "squad2 train has 17,630 rows here; the official file has 130,319.",
        "squad2 dev has 2,353 rows here; the official file has 11,873.",
    )


@pytest.mark.realdata
def test_squad2_has_as_many_answerable_questions_as_its_readme_says(real_data: Path) -> None:
    answerable = {}
    for split, questions in load_task("squad2", data=real_data).splits.items():
        assert isinstance(questions, Questions)
        answerable[split] = int(questions.answerable.sum())
    assert answerable == {"train": 13_640, "dev": 1_193}


@pytest.mark.realdata
def test_every_file_of_other_questions_is_known_here(real_data: Path) -> None:
    assert {path.name.removesuffix(".json.gz") for path in (real_data / "qa-extra").iterdir()} == set(QA_EXTRA)
    assert sum(QA_EXTRA.values()) == 83_507


@pytest.mark.realdata
@pytest.mark.parametrize("name", QA_EXTRA)
def test_other_questions_are_read_as_files_of_the_users_own(real_data: Path, name: str) -> None:
    data = load_task("own", data=real_data / "qa-extra" / f"{name}.json.gz")
    (questions,) = data.splits.values()
    assert isinstance(questions, Questions)
    assert len(questions) == QA_EXTRA[name]
    assert not any(data.bad.values())


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("path", "columns", "task"),
    [
        ("glue/CoLA/dev.tsv", OwnColumns(no_header=True, text="3", label="1"), "cola"),
        ("glue/SST-2/dev.tsv", OwnColumns(), "sst2"),
        ("glue/WNLI/dev.tsv", OwnColumns(), "wnli"),
        ("glue/RTE/dev.tsv", OwnColumns(quoting="none"), "rte"),
        ("glue/STS-B/dev.tsv", OwnColumns(quoting="none"), "stsb"),
        ("cs224n/sts-dev.csv", OwnColumns(label="similarity"), "sts"),
        ("cs224n/quora-dev.csv", OwnColumns(label="is_duplicate"), "quora"),
        ("cs224n/ids-sst-dev.csv", OwnColumns(label="sentiment"), "sst5"),
    ],
)
def test_the_task_own_reads_the_same_from_official_files(
    real_data: Path, path: str, columns: OwnColumns, task: str
) -> None:
    own = load_task("own", data=real_data / path, columns=columns).splits["dev"]
    official = load_task(task, data=real_data / path).splits["dev"]
    assert isinstance(own, Texts)
    assert isinstance(official, Texts)
    assert (own.texts, own.pairs) == (official.texts, official.pairs)
    assert own.targets.tolist() == official.targets.tolist()
