"""`bertvision export`, and `answer` and `predict` with what it wrote, without torch in the process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bertvision.cli.main import main
from bertvision.packs import quantise
from bertvision.tasks.load import TASKS
from tiny_pack import make_pack
from tiny_run import WIDTH, save_tiny_encoder, write_questions

Capture = pytest.CaptureFixture[str]

SCRIPT = """
import sys
from bertvision.cli.main import main
code = main(sys.argv[1:])
heavy = {"torch", "transformers", "sklearn", "scipy", "huggingface_hub"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else code)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    save_tiny_encoder(folder / "encoder")
    write_questions(folder / "data", train=10)
    make_pack(folder / "qa", str(folder / "encoder"), TASKS["squad2"], heads=["layer_mix"], threshold=1e9)
    (folder / "text.txt").write_text("a b gold c d . where e f good g h . bad a b .", encoding="utf-8")
    assert main(["export", f"{folder}/qa", "--to", "onnx", "--out", f"{folder}/onnx", "--examples", "20"]) == 0
    return folder


def without_torch(*words: str) -> str:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_export_tells_what_it_made(capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantise, "NARROWEST", WIDTH)  # the encoder is a tiny one
    data = f"{place}/data/dev.json"
    words = ["export", f"{place}/qa", "--out", f"{place}/again", "--int8", "--data", data, "--examples", "9"]
    assert main([*words, "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["numbers"], card["examples"], card["source"], card["opset"]) == ("int8", 9, "dev.json", 20)
    assert all(0.0 <= share <= 1.0 for share in card["agreement"].values())
    assert card["difference"] < 1e-4


def test_without_the_extra_it_is_said_what_to_install(
    capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnx"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("export", "quantise"):
        monkeypatch.delattr(f"bertvision.packs.{name}")
        monkeypatch.delitem(sys.modules, f"bertvision.packs.{name}")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", f"{place}/qa", "--out", f"{place}/never"]) == 2
    assert "an export needs the package 'onnx'. Install it: pip install 'bertvision[onnx]'" in capsys.readouterr().err


def test_answer_is_the_same_without_torch_in_the_process(capsys: Capture, place: Path) -> None:
    words = ["answer", "where is it ?", "--context", f"{place}/text.txt", "--json"]
    assert main([*words, "--pack", f"{place}/qa", "--device", "cpu"]) == 0
    expected = json.loads(capsys.readouterr().out)
    got = json.loads(without_torch(*words, "--pack", f"{place}/onnx", "--runtime", "onnx"))
    assert (got["answer"], got["start"], got["file"]) == (expected["answer"], expected["start"], expected["file"])
    assert got["score"] == pytest.approx(expected["score"], rel=1e-3)
    assert [one["answer"] for one in got["alternatives"]] == [one["answer"] for one in expected["alternatives"]]


def test_openvino_answers_the_same_without_torch_in_the_process(place: Path) -> None:
    pytest.importorskip("openvino", reason="an extra")
    words = ["answer", "where is it ?", "--context", f"{place}/text.txt", "--json", "--pack", f"{place}/onnx"]
    expected, got = (json.loads(without_torch(*words, "--runtime", name)) for name in ("onnx", "openvino"))
    assert (got["answer"], got["start"]) == (expected["answer"], expected["start"])
    assert got["score"] == pytest.approx(expected["score"], rel=1e-4)


def test_predict_is_the_same_without_torch_in_the_process(capsys: Capture, place: Path) -> None:
    words = ["predict", "squad2", f"{place}/data/dev.json", "--out"]
    assert main([*words, f"{place}/torch.json", "--pack", f"{place}/qa", "--device", "cpu"]) == 0
    without_torch(*words, f"{place}/graph.json", "--pack", f"{place}/onnx", "--runtime", "onnx")
    torch, graph = (json.loads((place / f"{name}.json").read_text(encoding="utf-8")) for name in ("torch", "graph"))
    assert graph == torch
    assert main([*words, f"{place}/no.json", "--pack", f"{place}/qa", "--runtime", "onnx"]) == 2
    assert "was not exported" in capsys.readouterr().err
