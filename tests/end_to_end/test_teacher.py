"""`bertvision tune --teacher` as a user runs it."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import losses, save_tiny_encoder, tiny_request, words, write_labels, write_questions

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("data")
    return {"squad2": write_questions(folder / "squad2"), "sst2": write_labels(folder / "sst2")}


@pytest.mark.parametrize("task", ["squad2", "sst2"])
def test_a_run_teaches_another_which_is_evaluated_like_any(
    task: str, encoder: str, data: dict[str, str], capsys: Capture, tmp_path: Path
) -> None:
    request = tiny_request(task, data[task], encoder, learn="lora:2", head="layer_mix")
    teacher, run, other = (str(tmp_path / name) for name in ("teacher", "run", "other"))
    assert main(words(tiny_request(task, data[task], encoder), Path(teacher))) == 0
    assert main(words(request, Path(other))) == 0
    capsys.readouterr()
    command = words(request, Path(run), "--json", "--teacher", f"{teacher}@1", "--teacher-share", "0.9")
    assert main([*command, "--teacher-temperature", "1.5"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["steps"] == 5
    assert f"{teacher}@1 reads 36 examples" in output.err
    assert f"note: {teacher}@1 read 36 examples in " in output.err
    asked = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["request"]["teacher"]
    assert asked == {"run": f"{teacher}@1", "share": 0.9, "temperature": 1.5}
    assert losses(Path(run)) != losses(Path(other))
    assert main([*command, "--teacher-temperature", "1.5", "--resume"]) == 0  # nothing is left to do
    capsys.readouterr()
    assert main(["evaluate", run, "--device", "cpu", "--bootstrap", "100", "--json"]) == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--teacher-share", "0.5"], "--teacher-share is for a --teacher, and there is none. Name one: RUN."),
        (["--teacher-temperature", "1"], "--teacher-temperature is for a --teacher, and there is none."),
        (["--teacher", "nobody"], "nobody holds no run: config.json is not there"),
        (
            ["--teacher", "nobody", "--teacher-share", "2"],
            "--teacher-share is 2, more than 0 and at most 1 is expected.",
        ),
    ],
)
def test_teachers_that_cannot_be_had_leave_nothing(  # noqa: PLR0917 - fixtures
    more: list[str], message: str, encoder: str, data: dict[str, str], capsys: Capture, tmp_path: Path
) -> None:
    assert main([*words(tiny_request("squad2", data["squad2"], encoder), tmp_path / "run"), *more]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
