"""The commands as a user runs them: output on standard output, messages on standard error, exit codes."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bertvision import __version__
from bertvision.cli.commands import COMMANDS
from bertvision.cli.main import main
from bertvision.cli.output import print_json
from bertvision.heads import HEADS
from bertvision.tasks.load import TASKS
from conftest import ROOT

Capture = pytest.CaptureFixture[str]


def run_json(capsys: Capture, *words: str) -> Any:  # noqa: ANN401 - whatever the command prints
    code = main([*words, "--json"])
    output = capsys.readouterr()
    assert code == 0, output.err
    return json.loads(output.out)


def fails(capsys: Capture, *words: str) -> str:
    """The message of a command that is to fail with exit code 2, one error and nothing on standard output."""
    assert main(list(words)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("error:") == 1
    return output.err


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    questions = [
        {"id": "q1", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}], "is_impossible": False},
        {"id": "q2", "question": "Where?", "answers": [], "is_impossible": True},
    ]
    content = {"data": [{"title": "t", "paragraphs": [{"context": "Ada wrote.", "qas": questions}]}]}
    return write(tmp_path / "gold.json", content)


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_help_lists_every_command(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name}" in listed and command.summary in listed for name, command in COMMANDS.items())
    assert main([]) == 0


def test_the_version_is_printed(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bertvision {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: Capture) -> None:
    assert main([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: bertvision {name}")
    assert COMMANDS[name].summary in text
    assert all(example in text for example in COMMANDS[name].examples)


def test_a_group_of_commands_explains_itself(capsys: Capture) -> None:
    assert main(["data", "--help"]) == 0
    assert "data check" in capsys.readouterr().out


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bertvision", "ls", "tasks", "--json"], capture_output=True, check=True
    )
    assert len(json.loads(done.stdout)) == len(TASKS) + 1


@pytest.mark.parametrize(("chosen", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_idle_threads_sleep_unless_the_user_says_otherwise(chosen: dict[str, str], policy: str) -> None:
    code = """
import os, sys
from bertvision.cli.main import main
assert "torch" not in sys.modules  # it would have read the environment already
main(["--version"])
print(os.environ["OMP_WAIT_POLICY"])
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | chosen
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == policy


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"{sys.executable} -m bertvision ls tasks --json | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[\n", "")


@pytest.mark.parametrize("words", [["answer", "Who?", "--context"], ["predict", "squad2"]])
def test_a_text_in_the_place_of_a_path_is_told(capsys: Capture, words: list[str]) -> None:
    message = fails(capsys, *words, "Mary Aldous drew the iron bridge. " * 200)
    assert "'Mary Aldous drew the iron bridge. Mary Aldous drew the iron …' is too long for a path. Put a" in message


def test_what_the_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
    monkeypatch.setattr("bertvision.cli.main._dispatch", lambda _words: print_json({"file": "caf\udce9.txt"}))
    main(["answer"])
    assert json.loads(written.getvalue()) == {"file": "caf\udce9.txt"}


def test_an_interrupted_command_says_so(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("bertvision.cli.main._dispatch", interrupt)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_tasks_are_listed(capsys: Capture) -> None:
    listed = run_json(capsys, "ls", "tasks")
    assert [task["name"] for task in listed] == [*TASKS, "own"]
    assert main(["ls", "tasks"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in TASKS)


def test_heads_are_listed_with_what_they_cost(capsys: Capture) -> None:
    listed = {row["name"]: row for row in run_json(capsys, "ls", "heads")}
    assert list(listed) == list(HEADS)
    for name, row in listed.items():
        assert row.keys() == {"name", "summary", "document", "kinds", "options", "parameters", "share"}
        assert row["parameters"] > 0
        assert row["share"] == pytest.approx(row["parameters"] / 335_141_888)
        assert row["options"].items() >= json.loads(json.dumps(dict(HEADS[name].options))).items()
    # two outputs of width 1024 with their biases; 25 weights and a scale; an adapter to 64 and 25 times that
    assert listed["last_layer"]["parameters"] == listed["dot_attention"]["parameters"] == 2 * 1024 + 2
    assert listed["layer_mix"]["parameters"] == 25 + 1 + 2 * 1024 + 2
    assert listed["adapter_pool_64"]["parameters"] == 1024 * 64 + 64 + 2 * 25 * 64 + 2
    assert (listed["xception"]["kinds"], listed["ladder"]["document"]) == (["labels", "tags", "scores"], "ours")
    assert listed["adapter_pool_64_skip"]["options"] == {"size": 64, "shared": True, "skip": True}


def test_heads_are_listed_as_a_table_too(capsys: Capture) -> None:
    assert main(["ls", "heads"]) == 0
    output = capsys.readouterr()
    assert all(f" {name} " in output.out for name in HEADS)
    assert "2,050" in output.out
    assert "0.0006%" in output.out  # 2,050 of 335,141,888
    assert output.err.startswith("note: every head also takes layers=0..K")


def test_built_in_sets_are_listed_with_a_baseline(capsys: Capture) -> None:
    rows = {row["task"]: row for row in run_json(capsys, "ls", "sets")}
    assert set(rows) == {task.name for task in TASKS.values() if task.builtin}
    assert rows["squad2"]["value"] == pytest.approx(100 * 65 / 143)
    assert rows["sst5"]["value"] == pytest.approx(0.2)
    assert main(["ls", "sets"]) == 0
    assert "squad2" in capsys.readouterr().out


def test_data_check_describes_every_split(capsys: Capture) -> None:
    checked = run_json(capsys, "data", "check", "squad2")
    assert checked["task"] == "squad2"
    train = checked["splits"]["train"]
    assert (train["rows"], train["bad"], train["answerable"], train["windows"]) == (605, 0, 330, 605)
    assert 100 < train["mean_tokens"] < train["p99_tokens"] < 384
    labels = run_json(capsys, "data", "check", "sst5")["splits"]["dev"]["labels"]
    assert labels == dict.fromkeys("01234", 12)
    scores = run_json(capsys, "data", "check", "sts")["splits"]["train"]["scores"]
    assert scores["min"] == 0.0
    assert scores["max"] == 5.0


def test_data_check_prints_tables_too(capsys: Capture) -> None:
    for task in ("squad2", "sst2", "sts"):
        assert main(["data", "check", task]) == 0
        output = capsys.readouterr()
        assert "train" in output.out
        assert "built-in set is used" in output.err


def test_data_check_reports_bad_rows_and_goes_on(capsys: Capture, tmp_path: Path) -> None:
    path = write(tmp_path / "train.tsv", "sentence\tlabel\ngood\t1\nbad\t7\nfine\t0\n")
    assert main(["data", "check", "sst2", "--data", str(path), "--json"]) == 2
    output = capsys.readouterr()
    assert (
        json.loads(output.out)["splits"]["train"] | {"rows": 2, "bad": 1} == json.loads(output.out)["splits"]["train"]
    )
    assert f"{path}:3: label '7' is not one of 0, 1" in output.err
    assert main(["data", "check", "sst2", "--data", str(path), "--skip-bad", "--json"]) == 0


def test_own_files_work_where_a_task_does(capsys: Capture, tmp_path: Path) -> None:
    path = write(tmp_path / "dev.csv", 'review,stars\n"Good, really",up\nBad,down\n')
    words = ["own", "--data", str(path), "--text", "review", "--label", "stars"]
    assert run_json(capsys, "data", "check", *words)["splits"]["dev"]["labels"] == {"down": 1, "up": 1}
    predictions = write(tmp_path / "predictions.txt", "up\nup\n")
    words = ["own", str(path), str(predictions), "--text", "review", "--label", "stars"]
    assert run_json(capsys, "score", *words)["accuracy"] == 0.5


def test_questions_are_scored_with_the_official_keys(capsys: Capture, gold: Path, tmp_path: Path) -> None:
    predictions = write(tmp_path / "p.json", {"q1": "ada!", "q2": "Rome"})
    no_answer = write(tmp_path / "na.json", {"q1": 0.1, "q2": 0.9})
    values = run_json(capsys, "score", "squad2", str(gold), str(predictions), "--na-prob", str(no_answer))
    assert values == {
        "exact": 50.0,
        "f1": 50.0,
        "total": 2,
        "HasAns_exact": 100.0,
        "HasAns_f1": 100.0,
        "HasAns_total": 1,
        "NoAns_exact": 0.0,
        "NoAns_f1": 0.0,
        "NoAns_total": 1,
        "best_exact": 100.0,
        "best_exact_thresh": 0.1,
        "best_f1": 100.0,
        "best_f1_thresh": 0.1,
        "missing": 0,
        "extra": 0,
    }
    words = ["score", "squad2", str(gold), str(predictions), "--na-prob", str(no_answer), "--na-threshold", "0.5"]
    assert run_json(capsys, *words)["exact"] == 100.0


def test_no_answer_values_that_are_no_probabilities_are_told_where_no_threshold_is_named(
    capsys: Capture, gold: Path, tmp_path: Path
) -> None:
    predictions = write(tmp_path / "p.json", {"q1": "ada!", "q2": ""})
    no_answer = write(tmp_path / "na.json", {"q1": 2.5, "q2": 7.0})
    words = ["score", "squad2", str(gold), str(predictions), "--na-prob", str(no_answer)]
    assert main(words) == 0
    assert '1 answers count as "", for their no-answer values are above 1' in capsys.readouterr().err
    assert main([*words, "--na-threshold", "3"]) == 0
    assert "count as" not in capsys.readouterr().err
    write(no_answer, {"q1": 0.9, "q2": 7.0})  # nothing was said to q2 anyway
    assert main(words) == 0
    assert "count as" not in capsys.readouterr().err


def test_missing_and_extra_predictions_are_reported(capsys: Capture, gold: Path, tmp_path: Path) -> None:
    predictions = write(tmp_path / "p.json", {"q1": "Ada", "q9": ""})
    assert main(["score", "squad2", str(gold), str(predictions)]) == 0
    messages = capsys.readouterr().err
    assert "1 predictions are missing" in messages
    assert "1 predictions are extra" in messages


def test_the_papers_scorer_compares_word_pieces(capsys: Capture, gold: Path, tmp_path: Path) -> None:
    predictions = write(tmp_path / "p.json", {"q1": "ada!", "q2": ""})
    values = run_json(capsys, "score", "squad2", str(gold), str(predictions), "--scorer", "paper")
    assert values["exact"] == 50.0  # the exclamation mark is a piece, which the official scorer drops
    assert values["f1"] == pytest.approx(100 * (2 / 3 + 1) / 2)


def test_squad1_answerability_and_glue_are_scored(capsys: Capture, gold: Path, tmp_path: Path) -> None:
    answers = write(tmp_path / "labels.json", {"q1": "has_answer", "q2": "has_answer"})
    values = run_json(capsys, "score", "answerable", str(gold), str(answers), "--confusion")
    assert values["accuracy"] == 0.5
    assert values["f1"] == pytest.approx(2 / 3)
    assert values["confusion/no_answer/has_answer"] == 1
    rte = write(
        tmp_path / "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\ta\tc\tnot_entailment\n"
    )
    predictions = write(tmp_path / "rte.tsv", "index\tprediction\n1\tnot_entailment\n0\tnot_entailment\n")
    assert run_json(capsys, "score", "rte", str(rte), str(predictions)) == {"accuracy": 0.5}
    squad1 = json.loads(gold.read_text(encoding="utf-8"))
    del squad1["data"][0]["paragraphs"][0]["qas"][1]
    one = write(tmp_path / "squad1.json", squad1)
    values = run_json(capsys, "score", "squad1", str(one), str(write(tmp_path / "p.json", {"q1": "the ada"})))
    assert values == {"exact_match": 100.0, "f1": 100.0, "total": 1, "missing": 0, "extra": 0}


def test_a_correlation_that_is_not_defined_is_null(capsys: Capture, tmp_path: Path) -> None:
    gold = write(tmp_path / "dev.csv", "text,text_pair,score\na,b,1.5\nc,d,2.5\n")
    predictions = write(tmp_path / "p.txt", "1\n1\n")
    values = run_json(capsys, "score", "own", str(gold), str(predictions))
    assert values == {"pearson": None, "spearman": None, "mse": 1.25}


def test_intervals_and_a_paired_test_are_added(capsys: Capture, tmp_path: Path) -> None:
    gold = write(tmp_path / "dev.tsv", "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(40)))
    right = write(tmp_path / "right.json", [i % 2 for i in range(40)])
    wrong = write(tmp_path / "wrong.json", [0] * 40)
    values = run_json(capsys, "score", "sst2", str(gold), str(right), "--bootstrap", "200", "--against", str(wrong))
    assert values["accuracy_low"] == values["accuracy_high"] == 1.0
    assert values["accuracy_difference"] == 0.5
    assert 0.2 < values["accuracy_difference_low"] < 0.5 < values["accuracy_difference_high"] < 0.8
    assert values["accuracy_p"] < 0.05


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scor"], r"unknown command 'scor'. Did you mean 'score'?"),
        (["data"], "'bertvision data' needs one more word: data check"),
        (["data", "chek"], "Did you mean 'data check'?"),
        (["ls", "tasks", "--jsn"], "unknown option '--jsn'. Did you mean '--json'?"),
        (["ls", "tasks", "more"], "'more' is one word too many"),
        (["ls", "trees"], "'trees' is not one of tasks, heads"),
        (["ls"], "the following arguments are required: WHAT"),
        (["data", "check", "squd2"], "unknown task 'squd2'. Did you mean 'squad2'?"),
        (["data", "check", "mnli"], "no built-in set for mnli. Name a folder: --data DIR with MNLI/train.tsv"),
        (["data", "check", "squad2", "--length", "many"], "invalid int value: 'many'"),
        (["data", "check", "own"], "needs --data FILE or --data DIR"),
        (["data", "check", "sst2", "--text", "a"], "columns can be named for the task 'own' only"),
        (["data", "check", "sst2", "--data", "nowhere"], "nowhere does not exist. Expected: --data DIR with SST-2/"),
        (["score", "squd2", "a", "b"], "unknown task 'squd2'"),
        (["score", "squad2", "nowhere.json", "b"], "nowhere.json is not a file"),
    ],
)
def test_words_that_do_not_fit_get_one_clear_message(words: list[str], message: str, capsys: Capture) -> None:
    assert message in fails(capsys, *words)


def test_a_prediction_file_for_other_questions_is_refused(capsys: Capture, gold: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "p.json", {"z1": "Ada"})
    message = fails(capsys, "score", "squad2", str(gold), str(other))
    assert "none of the 1 predictions is for one of the 2 questions. Expected ids such as 'q1'" in message


@pytest.mark.parametrize("option", [["--na-prob", "x.json"], ["--scorer", "paper"]])
def test_options_of_questions_are_refused_for_labels(capsys: Capture, tmp_path: Path, option: list[str]) -> None:
    gold = write(tmp_path / "dev.tsv", "sentence\tlabel\na\t1\n")
    words = ["score", "sst2", str(gold), str(write(tmp_path / "p.txt", "1\n")), *option]
    assert main(words) == 2
    assert "are for questions with answers in a text, not for sst2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--na-prob", "na.json", "--scorer", "paper"], "questions that may have no answer, not for --scorer paper"),
        (["--na-threshold", "0.5"], "--na-threshold is 0.5, but there are no no-answer scores"),
    ],
)
def test_options_that_would_change_nothing_are_refused(
    capsys: Capture, gold: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    predictions = write(tmp_path / "p.json", {"q1": "Ada", "q2": ""})
    assert message in fails(capsys, "score", "squad2", str(gold), str(predictions), *words)


def test_confusion_counts_are_refused_for_questions(capsys: Capture, gold: Path, tmp_path: Path) -> None:
    words = ["score", "squad2", str(gold), str(write(tmp_path / "p.json", {"q1": "Ada"})), "--confusion"]
    assert main(words) == 2
    assert "--confusion is for tasks with one label per text" in capsys.readouterr().err


@pytest.mark.realdata
def test_silence_on_the_real_dev_set_scores_what_its_readme_says(
    capsys: Capture, real_data: Path, tmp_path: Path
) -> None:
    gold = real_data / "squad2" / "dev.json.gz"
    assert run_json(capsys, "data", "check", "squad2", "--data", str(gold))["splits"]["dev"]["rows"] == 2353
    from bertvision.tasks.load import load_task  # noqa: PLC0415

    predictions = write(tmp_path / "p.json", dict.fromkeys(load_task("squad2", data=gold).splits["dev"].ids, ""))
    values = run_json(capsys, "score", "squad2", str(gold), str(predictions))
    assert values["exact"] == values["f1"] == 100 * 1160 / 2353


@pytest.mark.slow
def test_the_wheel_carries_the_built_in_sets_the_page_and_types(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, check=True
    )
    for name in (
        *("py.typed", "tasks/builtin/qa/train.json", "tasks/builtin/similarity/dev.tsv", "cli/main.py"),
        *("server/page/index.html", "server/page/page.js", "server/page/page.css", "server/page/examples.json"),
    ):
        assert f"bertvision/{name}" in listing.stdout
