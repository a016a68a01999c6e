"""`bertvision fit` as a user runs it."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from bertvision.heads import load_head
from folders import everything
from launch import kill_at_a_random_moment
from tiny_run import head_tensors, read_lines, same_heads, save_tiny_encoder, write_questions

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture
def command(encoder: str, tmp_path: Path) -> list[str]:
    """A fit of a few heads on the built-in set."""
    return [
        *("fit", "sst2", "--encoder", encoder, "--heads", "last_layer,layer_mix,layer_concat", "--length", "64"),
        *("--device", "cpu", "--held-out", "0.2", "--out", str(tmp_path / "run")),
    ]


def fails(capsys: Capture, words: list[str]) -> str:
    """The message of a command that is to fail with exit code 2, one error and nothing on standard output."""
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("error:") == 1
    assert "Traceback" not in output.err
    return output.err.rpartition("error: ")[2]


def test_the_leaderboard_alone_goes_to_standard_output_as_json(
    capsys: Capture, command: list[str], tmp_path: Path
) -> None:
    assert main([*command, "--json"]) == 0
    output = capsys.readouterr()
    rows = json.loads(output.out)
    assert rows == json.loads((tmp_path / "run" / "leaderboard.json").read_text(encoding="utf-8"))
    assert sorted(row["head"] for row in rows) == ["last_layer", "layer_concat", "layer_mix"]
    scores = [row["metrics"]["accuracy"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    for row in rows:
        assert load_head(tmp_path / "run" / row["folder"]).name == row["head"]
    lines = output.err.splitlines()
    assert any(line.startswith("note: sst2") for line in lines)
    assert any(line.endswith("scoring 3 heads …") for line in lines)


def test_a_table_shows_heads_best_first(capsys: Capture, command: list[str]) -> None:
    grid = ["--grid", "lr=0.001,0.01", "--seeds", "2", "--fraction", "0.5,1", "--validate", "0.5"]
    assert main([*command, *grid, "--heads", "layer_mix"]) == 0
    table = capsys.readouterr().out
    assert "8 heads, best first" in " ".join(table.split())
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if "layer_mix" in line]
    assert len(cells) == 8
    assert {tuple(cell[1:4]) for cell in cells} == {
        (lr, seed, share) for lr in ("0.001", "0.01") for seed in ("0", "1") for share in ("0.5", "1")
    }
    accuracies = [float(cell[6]) for cell in cells]
    assert accuracies == sorted(accuracies, reverse=True)


@pytest.mark.parametrize(("more", "times"), [([], 1), (["--train-all"], 2), (["--pool", "attention"], 2)])
def test_heads_that_are_solved_know_no_rate_and_are_listed_once(
    capsys: Capture, command: list[str], more: list[str], times: int
) -> None:
    words = ["--heads", "last_layer,layer_mix", "--grid", "lr=0.001,0.01", "--fraction", "0.2", *more]
    assert main([*command, *words, "--json"]) == 0
    names = [row["head"] for row in json.loads(capsys.readouterr().out)]
    assert (names.count("last_layer"), names.count("layer_mix")) == (times, 2)


def test_what_was_asked_for_on_the_command_line_is_what_is_asked_for(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "heads.toml"
    text = "[[head]]\nhead = 'adapter_pool'\nfraction = 0.5\noptions = { size = 4 }\n[[head]]\nhead = 'last_layer'\n"
    file.write_text(text, encoding="utf-8")
    more = [
        "--schedule",
        "cosine",
        "--warmup",
        "0.1",
        "--weight-decay",
        "0",
        "--clip",
        "2",
        "--seed",
        "3",
        "--train-all",
    ]
    more += ["--epochs", "0.5", "--batch", "16", "--pool", "mean", "--dtype", "float32", "--pairs", "apart"]
    assert main([*command, "--heads", str(file), *more]) == 0
    asked = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["request"]
    learning = {"lr": 1e-3, "schedule": "cosine", "warmup": 0.1, "weight_decay": 0.0, "clip": 2.0, "seed": 3}
    assert asked["heads"] == [
        {**learning, "head": "adapter_pool", "fraction": 0.5, "options": {"size": 4}},
        {**learning, "head": "last_layer", "fraction": 1.0, "options": {}},
    ]
    expected = {"epochs": 0.5, "batch": 16, "pool": "mean", "dtype": "float32", "pairs": "apart", "solve": False}
    assert asked.items() >= {**expected, "seed": 3, "held_out": 0.2, "task": "sst2", "validate": []}.items()


def test_heads_learn_which_tokens_count(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    assert main([*command, "--pool", "attention", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["options"]["tokens"] for row in rows] == ["attention"] * 3
    for row in rows:
        assert load_head(tmp_path / "run" / row["folder"]).token_pool is not None
    assert "--pool attention is for labels, tags and scores" in fails(
        capsys, ["fit", "squad2", *command[2:], "--pool", "attention", "--out", str(tmp_path / "spans")]
    )


def test_a_finished_fit_is_shown_again_and_another_is_refused(
    capsys: Capture, command: list[str], tmp_path: Path
) -> None:
    assert main([*command, "--json"]) == 0
    first = capsys.readouterr().out
    before = everything(tmp_path / "run")
    assert "holds a run already. It is finished" in fails(capsys, command)
    assert "was asked for something else: epochs was 1.0, is 2.0" in fails(
        capsys, [*command, "--resume", "--epochs", "2"]
    )
    assert main([*command, "--resume", "--json"]) == 0
    output = capsys.readouterr()
    assert output.out == first
    assert "is finished; there was nothing left to do" in output.err
    assert everything(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--heads", "last_lyer"], "unknown head 'last_lyer'. Did you mean 'last_layer'?"),
        (["--heads", "none.toml"], "none.toml cannot be read as TOML"),
        (["--grid", "size"], "--grid is 'size', a name and values"),
        (["--grid", "size=3"], "unknown key of --grid for these heads 'size'."),
        (["--grid", "schedule=odd"], "--schedule is odd, one of constant, linear, cosine, restarts is expected"),
        (["--fraction", "some"], "--fraction is 'some', numbers such as"),
        (["--fraction", "2"], "--fraction is 2, more than 0 and at most 1 is expected"),
        (["--fraction", ""], "no head was asked for"),
        (["--validate", "3"], "--validate has 3; more than 0 and at most the 1 epochs"),
        (["--held-out", "0"], "--held-out is 0, more than 0 and less than 1 is expected"),
        (["--lr", "0", "--batch", "0"], "--batch is 0, at least 1 is expected; --lr is 0"),
        (["--seeds", "0"], "--seeds is 0, at least 1 is expected"),
        (["--seed", "-1"], "--seed is -1, at least 0 is expected"),
        (["--length", "65"], "window length 65 exceeds the 64 tokens"),
        (["--grid", "size=0", "--heads", "adapter_pool"], "option size is '0', a whole number at least 1"),
        (["--encoder", "no/where"], "no/where"),
    ],
)
def test_what_cannot_be_is_an_error_and_nothing_is_written(
    capsys: Capture, command: list[str], words: list[str], message: str, tmp_path: Path
) -> None:
    assert message in " ".join(fails(capsys, [*command, *words]).split())
    assert not (tmp_path / "run").exists()


def test_unknown_tasks_and_data_that_are_not_there_are_errors(capsys: Capture, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run")]
    assert "unknown task 'sst3'. Did you mean" in fails(capsys, ["fit", "sst3", *out])
    assert "nowhere" in fails(capsys, ["fit", "sst2", "--data", str(tmp_path / "nowhere"), *out])
    assert not (tmp_path / "run").exists()


def test_help_names_every_option_with_its_meaning(capsys: Capture) -> None:
    assert main(["fit", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in ("--heads", "--grid", "--seeds", "--fraction", "--validate", "--pairs", "--train-all", "--resume"):
        assert option in text
    assert "Train many heads in one pass over a frozen encoder" in text
    assert "bertvision fit squad2 --heads adapter_pool --grid lr=3e-4,1e-3" in text


@pytest.mark.slow
def test_a_killed_fit_is_resumed_to_the_same_end(capsys: Capture, encoder: str, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data", train=80)
    words = ["fit", "squad2", "--data", data, "--encoder", encoder, "--heads", "dense_stack,layer_mix,adapter_pool_64"]
    words += ["--length", "64", "--stride", "16", "--question", "24", "--batch", "8", "--device", "cpu", "--json"]
    words += ["--epochs", "15", "--validate", "0.3,5,10", "--fraction", "0.3,1", "--lr", "0.003"]
    run, whole = tmp_path / "run", tmp_path / "whole"
    kill_at_a_random_moment([*words, "--out", str(run)], run)
    done = read_lines(run)[-1]["step"]
    assert not (run / "result.json").exists(), f"it was faster than the kill: step {done}"
    boards = []
    for more in (["--out", str(run), "--resume"], ["--out", str(whole)]):
        assert main([*words, *more]) == 0
        boards.append([(row["folder"], row["metrics"]) for row in json.loads(capsys.readouterr().out)])
    assert boards[0] == boards[1], f"killed after step {done}"
    assert same_heads(run, whole), f"killed after step {done}"
    assert len({name.partition(":")[0] for name in head_tensors(run)}) == 6
    assert read_lines(run) == read_lines(whole)
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in whole.iterdir())
