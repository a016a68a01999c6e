import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bertvision.errors import BertVisionError
from bertvision.heads.random_stream import RandomStream
from bertvision.training.checkpoint import (
    OwnState,
    Progress,
    load_checkpoint,
    random_states,
    remove_checkpoints,
    save_checkpoint,
)

PROGRESS = Progress(step=3, best=0.75, stale=2)


def make() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A module of which only the first layer learns."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[2].requires_grad_(requires_grad=False)
    return model, torch.optim.AdamW(model[0].parameters(), lr=0.1)


def learn(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def own(total: float = 1.5, count: int = 4) -> OwnState:
    return OwnState((total, count), random_states())


def names(run: Path) -> list[str]:
    return sorted(path.name for path in run.iterdir())


def values(model: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in model.parameters()]


def test_a_run_goes_on_from_a_checkpoint_as_if_nothing_had_happened(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, optimizer = make()
    frozen = {name: value for name, value in model.state_dict().items() if name.startswith("2.")}
    learn(model, optimizer)
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    learn(model, optimizer)

    torch.manual_seed(9)
    other, other_optimizer = make()
    other.load_state_dict(frozen, strict=False)  # what does not learn is not in the checkpoint
    assert load_checkpoint(tmp_path, other, other_optimizer) == (PROGRESS, (1.5, 4))
    learn(other, other_optimizer)
    assert all(torch.equal(a, b) for a, b in zip(values(model), values(other), strict=True))


def make_images() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A convolution whose weights lie in memory as those of heads of images do."""
    model = nn.Conv2d(4, 5, (1, 3)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as in heads
    return model, torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)


def test_moments_and_gradients_meet_their_own_weights_however_these_lie_in_memory(tmp_path: Path) -> None:
    torch.manual_seed(0)
    images = torch.randn(3, 6, 4, 2, 7)
    (model, optimizer), (other, other_optimizer) = make_images(), make_images()
    model(images[0]).square().sum().backward()
    optimizer.step()
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])  # with gradients that were gathered
    load_checkpoint(tmp_path, other, other_optimizer)
    for some, its in ((model, optimizer), (other, other_optimizer)):
        some(images[1]).square().sum().backward()
        its.step()
    assert all(torch.equal(a, b) for a, b in zip(values(model), values(other), strict=True))


def test_running_statistics_come_back_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    learn(model, optimizer)
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    expected = {name: value.clone() for name, value in model.state_dict().items()}

    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert not torch.equal(other.state_dict()["1.running_mean"], expected["1.running_mean"])
    load_checkpoint(tmp_path, other, torch.optim.AdamW(other.parameters(), lr=0.1))
    assert all(torch.equal(value, expected[name]) for name, value in other.state_dict().items())


def test_running_statistics_of_another_size_are_of_another_model(tmp_path: Path) -> None:
    model = nn.BatchNorm1d(4, affine=False)
    weight = nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(weight.parameters())
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    with pytest.raises(BertVisionError, match="checkpoint-3 is of another model"):
        load_checkpoint(tmp_path, nn.BatchNorm1d(5, affine=False), optimizer)


def test_nothing_is_loaded_where_there_is_nothing(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "nowhere", *make()) is None


def test_a_checkpoint_before_the_first_step_holds_no_moments(tmp_path: Path) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, Progress(), model, optimizer, [own()])
    assert load_checkpoint(tmp_path, model, optimizer) == (Progress(), (1.5, 4))
    assert not optimizer.state


def test_a_new_checkpoint_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    model, optimizer = make()
    (tmp_path / ".checkpoint-2.part").mkdir()
    for step in (9, 10):  # by number, not by name
        save_checkpoint(tmp_path, Progress(step=step), model, optimizer, [own()])
    assert names(tmp_path) == ["checkpoint-10"]
    found = load_checkpoint(tmp_path, model, optimizer)
    assert found is not None
    assert found[0].step == 10


def test_the_newest_whole_checkpoint_counts(tmp_path: Path) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, Progress(step=9), model, optimizer, [own()])
    shutil.copytree(tmp_path / "checkpoint-9", tmp_path / "copy")
    save_checkpoint(tmp_path, Progress(step=10), model, optimizer, [own()])
    (tmp_path / "copy").rename(tmp_path / "checkpoint-9")  # a kill came before it was removed
    (tmp_path / "checkpoint-11").mkdir()  # somebody's empty folder
    found = load_checkpoint(tmp_path, model, optimizer)
    assert found is not None
    assert found[0].step == 10


def test_every_process_gets_back_its_own(tmp_path: Path) -> None:
    model, optimizer = make()
    owns = []
    for process in (0, 1):
        torch.manual_seed(process)
        owns.append(own(float(process), 10 + process))
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, owns)
    for process in (0, 1):
        found = load_checkpoint(tmp_path, model, optimizer, process=process, processes=2)
        assert found == (PROGRESS, (float(process), 10 + process))
        drawn = torch.rand(3)
        torch.manual_seed(process)
        assert torch.equal(drawn, torch.rand(3))


def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    with pytest.raises(BertVisionError, match="is of 1 processes; 2 are expected"):
        load_checkpoint(tmp_path, model, optimizer, process=1, processes=2)


def test_another_format_is_refused(tmp_path: Path) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    path = tmp_path / "checkpoint-3" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"format": 99}), encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"state\.json has format 99, 1 is expected\. Start anew"):
        load_checkpoint(tmp_path, model, optimizer)


@pytest.mark.parametrize("name", ["format", "step", "losses"])
def test_a_checkpoint_that_lacks_something_is_refused(name: str, tmp_path: Path) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    path = tmp_path / "checkpoint-3" / "state.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content[name]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(BertVisionError, match=rf"state\.json cannot be read \('{name}' is missing\)\. Start anew"):
        load_checkpoint(tmp_path, model, optimizer)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    before = values(model)
    model[2].requires_grad_(requires_grad=True)  # type: ignore[index]  # a Sequential
    with pytest.raises(BertVisionError, match=r"checkpoint-3 is of another model\. Start anew with another --out"):
        load_checkpoint(tmp_path, model, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(before, values(model), strict=True))


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_refused(file: str, tmp_path: Path) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    path = tmp_path / "checkpoint-3" / file
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(BertVisionError, match=r"checkpoint-3/.* cannot be read .*\. Start anew with another --out"):
        load_checkpoint(tmp_path, model, optimizer)


@pytest.mark.parametrize("target", ["tensor_files.save_file", "training.checkpoint.write_json"])
def test_a_full_disk_keeps_the_checkpoint_before_and_leaves_nothing_half_written(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, Progress(step=2), model, optimizer, [own()])

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"bertvision.{target}", full)
    with pytest.raises(BertVisionError, match=r"checkpoint-3 cannot be written: No space left on device\. Make room"):
        save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    assert names(tmp_path) == ["checkpoint-2"]


def test_an_error_of_safetensors_while_writing_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error")

    monkeypatch.setattr("bertvision.tensor_files.save_file", odd)
    with pytest.raises(BertVisionError, match="cannot be written: Error while serializing: I/O error"):
        save_checkpoint(tmp_path, PROGRESS, *make(), [own()])


def test_a_kill_while_writing_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, Progress(step=2), model, optimizer, [own()])

    def killed(tensors: dict[str, Tensor], path: Path, **_: object) -> None:
        save_file(tensors, path)
        path.write_bytes(path.read_bytes()[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr("bertvision.tensor_files.save_file", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    found = load_checkpoint(tmp_path, model, optimizer)
    assert found is not None
    assert found[0].step == 2


def test_the_checkpoint_before_is_removed_only_when_the_new_one_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = make()
    save_checkpoint(tmp_path, Progress(step=2), model, optimizer, [own()])
    synced: list[str] = []
    real, remove = os.fsync, shutil.rmtree

    def sync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real(handle)

    def removed(path: Path, *, ignore_errors: bool = False) -> None:
        if path.name == "checkpoint-2":
            assert synced[0] == "tensors.safetensors"
            assert synced[-2:] == [".checkpoint-3.part", tmp_path.name]  # the files' names, and then the folder's
        remove(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(shutil, "rmtree", removed)
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    assert names(tmp_path) == ["checkpoint-3"]


def test_every_checkpoint_can_be_removed(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, PROGRESS, *make(), [own()])
    (tmp_path / ".checkpoint-4.part").mkdir()
    (tmp_path / "config.json").touch()
    remove_checkpoints(tmp_path)
    assert names(tmp_path) == ["config.json"]


def test_it_holds_what_learns_and_nothing_else(tmp_path: Path) -> None:
    model, optimizer = make()
    learn(model, optimizer)
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    saved = set(load_file(tmp_path / "checkpoint-3" / "tensors.safetensors"))
    learnt = {f"{kind}.0.{part}" for part in ("weight", "bias") for kind in ("model", "optimizer.exp_avg")}
    assert learnt <= saved
    assert not [name for name in saved if ".2." in name]


def test_the_count_of_steps_of_a_fused_optimiser_stands_beside_its_parameter(tmp_path: Path) -> None:
    model, optimizer = make()
    learn(model, optimizer)
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    elsewhere, _ = make()
    elsewhere.to("meta")  # stands for a GPU
    for fused, device in ((True, "meta"), (False, "cpu")):
        other = torch.optim.AdamW(elsewhere[0].parameters())  # type: ignore[index]  # a Sequential
        other.param_groups[0]["fused"] = fused
        load_checkpoint(tmp_path, elsewhere, other)
        states = list(other.state.values())
        assert {state["step"].device.type for state in states} == {device}
        assert {state["exp_avg"].device.type for state in states} == {"meta"}


def test_gradients_that_are_being_gathered_are_kept(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, optimizer = make()
    model(torch.randn(5, 3)).square().sum().backward()
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()])
    other, other_optimizer = make()
    load_checkpoint(tmp_path, other, other_optimizer)
    for value, expected in zip(other.parameters(), model.parameters(), strict=True):
        assert (value.grad is None) == (expected.grad is None)
        assert value.grad is None or (expected.grad is not None and torch.equal(value.grad, expected.grad))
    assert sum(value.grad is not None for value in other.parameters()) == 2
    learn(model, optimizer)
    save_checkpoint(tmp_path, Progress(step=4), model, optimizer, [own()])
    load_checkpoint(tmp_path, other, other_optimizer)
    assert all(value.grad is None for value in other.parameters())


def test_random_streams_go_on_where_they_were(tmp_path: Path) -> None:
    model, optimizer = make()
    streams = {"a": RandomStream(1), "b": RandomStream(2)}
    for stream in streams.values():
        with stream:
            torch.rand(3)
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()], streams)
    expected = {name: draw(stream) for name, stream in streams.items()}
    others = {"b": RandomStream(0), "a": RandomStream(0)}
    load_checkpoint(tmp_path, model, optimizer, streams=others)
    assert {name: draw(stream) for name, stream in others.items()} == expected
    assert expected["a"] != expected["b"]


@pytest.mark.parametrize("gpu", ["before", "now"])
def test_streams_of_another_kind_of_device_are_refused(gpu: str, tmp_path: Path) -> None:
    model, optimizer = make()
    before, now = ({name: RandomStream(1) for name in ("1", "10")} for _ in range(2))
    for stream in (before if gpu == "before" else now).values():
        stream.state = [*stream.state, torch.zeros(16, dtype=torch.uint8)]  # as on a GPU
    save_checkpoint(tmp_path, PROGRESS, model, optimizer, [own()], before)
    with pytest.raises(BertVisionError, match=r"checkpoint-3 was made on another kind of device\. Go on with that --d"):
        load_checkpoint(tmp_path, model, optimizer, streams=now)


def draw(stream: RandomStream) -> list[float]:
    with stream:
        return [float(value) for value in torch.rand(3)]
