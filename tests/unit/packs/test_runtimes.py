"""Which runtime computes an exported pack."""

from pathlib import Path

import pytest

from bertvision.errors import BertVisionError
from bertvision.packs import runtimes
from bertvision.packs.runtimes import GraphRuntime, choose_runtime, load_graph


def test_the_fastest_runtime_that_is_here_is_taken_if_it_is_clearly_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[GraphRuntime] = ["onnx", "openvino"]
    monkeypatch.setattr(runtimes, "installed_runtimes", lambda: here)
    assert choose_runtime({"onnx": 10.0, "openvino": 5.0}) == "openvino"
    assert choose_runtime({"onnx": 10.0, "openvino": 9.0}) == "onnx"  # it would take longer to start
    assert choose_runtime({"onnx": 10.0}) == "onnx"
    assert choose_runtime({}) == "onnx"
    here.remove("openvino")
    assert choose_runtime({"onnx": 10.0, "openvino": 5.0}) == "onnx"
    here[:] = ["openvino"]
    assert choose_runtime({"onnx": 10.0, "openvino": 20.0}) == "openvino"


@pytest.mark.parametrize(("runtime", "module"), [("onnx", "onnxruntime"), ("openvino", "openvino")])
def test_a_runtime_that_is_not_installed_is_told_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, runtime: GraphRuntime, module: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(BertVisionError, match=rf"'{module}'.*bertvision\[{runtime}\]"):
        load_graph(Path("model.onnx"), runtime)


@pytest.mark.parametrize("runtime", runtimes.installed_runtimes())
def test_what_is_no_graph_is_told(tmp_path: Path, runtime: GraphRuntime) -> None:
    (tmp_path / "model.onnx").write_text("no", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"no graph that .* reads"):
        load_graph(tmp_path / "model.onnx", runtime)
