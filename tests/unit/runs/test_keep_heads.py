"""A disk that becomes full while a fit keeps a head."""

import resource
from pathlib import Path

import pytest
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from bertvision.errors import BertVisionError
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.fit_run import FitRun
from bertvision.training.trainee import HeadSpec
from folders import everything
from tiny_run import same_heads, save_tiny_encoder, tiny_fit, write_labels


@pytest.fixture
def request_of(tmp_path: Path) -> FitRequest:
    data = write_labels(tmp_path / "data", train=40)
    head = HeadSpec(head="adapter_pool", lr=2e-2)
    return tiny_fit("sst2", data, save_tiny_encoder(tmp_path / "encoder"), head, epochs=2, validate=(1,), solve=False)


def test_a_head_that_finds_no_room_ends_the_fit_with_what_to_do_and_it_goes_on_from_there(
    request_of: FitRequest, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, hard))
    try:
        with pytest.raises(
            BertVisionError, match=r"the head .*/000-adapter_pool cannot be written: .*File too large.*and --resume\.$"
        ):
            fit_heads(request_of, tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list((tmp_path / "run" / "heads").iterdir())
    fit_heads(request_of, tmp_path / "run", resume=True)
    fit_heads(request_of, tmp_path / "whole")
    assert same_heads(tmp_path / "run", tmp_path / "whole")


def test_the_older_head_stays_where_a_better_one_finds_no_room(
    request_of: FitRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = tmp_path / "run" / "heads"
    kept: list[dict[str, bytes]] = []

    def save(tensors: dict[str, Tensor], path: Path, **_: object) -> None:
        if path.name == "head.safetensors" and heads.joinpath("000-adapter_pool").exists():
            kept.append(everything(heads / "000-adapter_pool"))
            path.write_bytes(b"half of ")
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        save_file(tensors, path)

    scores = iter(range(10))
    monkeypatch.setattr(FitRun, "judge", lambda _, numbers, _step: {number: float(next(scores)) for number in numbers})
    monkeypatch.setattr("bertvision.tensor_files.save_file", save)
    with pytest.raises(BertVisionError, match=r"cannot be written: .*No space left on device.* Make room and --resume"):
        fit_heads(request_of, tmp_path / "run")
    assert [path.name for path in heads.iterdir()] == ["000-adapter_pool"]
    assert [everything(heads / "000-adapter_pool")] == kept
    assert sorted(kept[0]) == ["head.json", "head.safetensors"]
