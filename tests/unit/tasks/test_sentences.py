"""What is peculiar to the files of the minBERT course."""

from pathlib import Path

from bertvision.tasks.examples import Texts
from bertvision.tasks.load import load_task
from bertvision.tasks.sentences import SENTENCE_TASKS


def dev(name: str, folder: Path) -> Texts:
    examples = load_task(name, data=folder).splits["dev"]
    assert isinstance(examples, Texts)
    return examples


def test_the_course_has_four_tasks() -> None:
    assert [task.name for task in SENTENCE_TASKS] == ["sst5", "sts", "quora", "cfimdb"]


def test_files_called_csv_are_tab_separated_and_their_commas_are_text(tmp_path: Path) -> None:
    (tmp_path / "ids-sst-dev.csv").write_text(
        "\tid\tsentence\tsentiment\n0\tab\tYes , no , and\t3\n1\tcd\tMaybe\t0\n", encoding="utf-8"
    )
    examples = dev("sst5", tmp_path)
    assert (examples.ids, examples.texts) == (["ab", "cd"], ["Yes , no , and", "Maybe"])
    assert examples.targets.tolist() == [3, 0]


def test_quoted_cells_lose_their_quotes_and_doubled_ones_become_single(tmp_path: Path) -> None:
    (tmp_path / "sts-dev.csv").write_text(
        '\tid\tsentence1\tsentence2\tsimilarity\n0\tab\t"""Yes,"" he said."\tHe said 5" long.\t1.0\n', encoding="utf-8"
    )
    examples = dev("sts", tmp_path)
    assert (examples.texts, examples.pairs) == (['"Yes," he said.'], ['He said 5" long.'])


def test_the_labels_of_quora_are_spelled_as_fractions(tmp_path: Path) -> None:
    (tmp_path / "quora-dev.csv").write_text(
        "\tid\tsentence1\tsentence2\tis_duplicate\n5\tab\tHow?\tWhy?\t0.0\n6\tcd\tWho?\tWho is it?\t1.0\n",
        encoding="utf-8",
    )
    assert dev("quora", tmp_path).targets.tolist() == [0, 1]


def test_tasks_that_share_a_folder_read_their_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "cs224n"
    folder.mkdir()
    (folder / "ids-sst-dev.csv").write_text("\tid\tsentence\tsentiment\n0\tab\tfine\t4\n", encoding="utf-8")
    (folder / "ids-cfimdb-dev.csv").write_text("\tid\tsentence\tsentiment\n0\tab\tawful\t0\n", encoding="utf-8")
    (folder / "sts-dev.csv").write_text("\tid\tsentence1\tsentence2\tsimilarity\n0\tab\tx\ty\t2.2\n", encoding="utf-8")
    assert dev("sst5", tmp_path).texts == ["fine"]
    assert dev("cfimdb", tmp_path).texts == ["awful"]
    assert dev("sts", tmp_path).targets.tolist() == [2.2]
