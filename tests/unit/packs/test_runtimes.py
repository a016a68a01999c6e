"""Which runtime computes an exported pack."""

from pathlib import Path

import pytest

from bertvision.errors import BertVisionError
from bertvision.packs import runtimes
from bertvision.packs.runtimes import GraphRuntime, choose_runtime, load_graph

ALIKE = {"onnx": 1.0, "openvino": 1.0, "openvino-bf16": 0.99}


def choose(milliseconds: dict[str, float], agreement: dict[str, float] | None = None) -> GraphRuntime:
    return choose_runtime(milliseconds, ALIKE | (agreement or {}), 0.99)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> set[GraphRuntime]:
    """Which runtimes can be used; a test may change them."""
    found: set[GraphRuntime] = {"onnx", "openvino", "openvino-bf16"}
    monkeypatch.setattr(runtimes, "_usable", found.__contains__)
    return found


def test_the_fastest_runtime_that_is_here_is_taken_if_it_is_clearly_faster(here: set[GraphRuntime]) -> None:
    assert choose({"onnx": 10.0, "openvino": 5.0}) == "openvino"
    assert choose({"onnx": 10.0, "openvino": 9.5}) == "onnx"  # it would take longer to start
    assert choose({"onnx": 10.0, "openvino": 8.0, "openvino-bf16": 4.0}) == "openvino-bf16"
    assert choose({"onnx": 10.0}) == "onnx"
    assert choose({}) == "onnx"
    here.remove("openvino-bf16")
    assert choose({"onnx": 10.0, "openvino": 8.0, "openvino-bf16": 4.0}) == "openvino"
    here.remove("openvino")
    assert choose({"onnx": 10.0, "openvino": 5.0}) == "onnx"
    here.clear()
    here.add("openvino")
    assert choose({"onnx": 10.0, "openvino": 20.0}) == "openvino"


@pytest.mark.usefixtures("here")
def test_a_runtime_that_predicts_otherwise_is_taken_only_where_none_is_better() -> None:
    times = {"onnx": 10.0, "openvino": 9.5, "openvino-bf16": 4.0}
    assert choose(times, {"openvino-bf16": 0.98}) == "onnx"
    assert choose(times, {"onnx": 0.98, "openvino-bf16": 0.98}) == "openvino"
    assert choose(times, {"onnx": 0.96, "openvino": 0.95, "openvino-bf16": 0.97}) == "openvino-bf16"


def test_bfloat16_is_for_processors_that_have_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="an extra")
    monkeypatch.setattr(runtimes, "_multiplies_bf16", lambda: False)
    assert runtimes.usable_runtimes() == ["onnx", "openvino"]
    with pytest.raises(BertVisionError, match=r"no bfloat16\. Use --runtime openvino"):
        load_graph(tmp_path / "model.onnx", "openvino-bf16")
    monkeypatch.setattr(runtimes, "_multiplies_bf16", lambda: True)
    assert runtimes.usable_runtimes() == ["onnx", "openvino", "openvino-bf16"]


def test_an_openvino_that_cannot_be_imported_has_no_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)
    assert not runtimes._multiplies_bf16.__wrapped__()  # noqa: SLF001 - without what it remembers


def test_only_the_runtime_that_is_taken_is_asked_whether_it_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[GraphRuntime] = []

    def usable(name: GraphRuntime) -> bool:
        asked.append(name)
        return True

    monkeypatch.setattr(runtimes, "_usable", usable)
    assert choose({"onnx": 10.0, "openvino": 9.5, "openvino-bf16": 9.5}) == "onnx"
    assert asked == ["onnx"]


@pytest.mark.parametrize(("runtime", "module"), [("onnx", "onnxruntime"), ("openvino", "openvino")])
def test_a_runtime_that_is_not_installed_is_told_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, runtime: GraphRuntime, module: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(BertVisionError, match=rf"'{module}'.*bertvision\[{runtime}\]"):
        load_graph(Path("model.onnx"), runtime)


@pytest.mark.parametrize("runtime", runtimes.usable_runtimes())
def test_what_is_no_graph_is_told(tmp_path: Path, runtime: GraphRuntime) -> None:
    (tmp_path / "model.onnx").write_text("no", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"no graph that .* reads \(.+\)") as caught:
        load_graph(tmp_path / "model.onnx", runtime)
    assert "\n" not in str(caught.value)


def test_an_error_without_a_word_is_told_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("onnxruntime.InferenceSession", fail)
    with pytest.raises(BertVisionError, match=r"no graph that ONNX Runtime reads \(MemoryError\)"):
        load_graph(tmp_path / "model.onnx", "onnx")
