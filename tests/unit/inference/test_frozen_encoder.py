"""How precisely a frozen encoder computes: as asked for, and by itself in bfloat16 on a GPU alone."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bertvision.device import Dtype
from bertvision.encoder.encoder import Encoder
from bertvision.inference.frozen_encoder import frozen_passes, in_bfloat16, load_frozen
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.frozen import freeze_task
from bertvision.runs.judging.evaluate import evaluate
from bertvision.training.trainee import HeadSpec
from close import HALF
from tiny_run import head_tensors, save_tiny_encoder, tiny_fit, write_labels, write_questions

HEAD = HeadSpec(head="last_layer")
KINDS = ("last_layer", "layer_mix", "adapter_pool", "ladder", "recurrent", "conv", "encoder_attention")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.mark.parametrize(
    ("dtype", "device", "half"),
    [
        ("auto", "cpu", False),
        ("auto", "cuda", True),
        ("float32", "cuda", False),
        ("bfloat16", "cpu", True),
        ("bfloat16", "cuda", True),
    ],
)
def test_bfloat16_is_for_gpus_unless_it_is_asked_for(*, dtype: Dtype, device: str, half: bool) -> None:
    assert in_bfloat16(dtype, torch.device(device)) == half


@pytest.mark.parametrize(("dtype", "kept"), [("auto", torch.float32), ("bfloat16", torch.bfloat16)])
def test_weights_are_as_precise_as_the_pass(dtype: Dtype, kept: torch.dtype, encoder: str) -> None:
    loaded = load_frozen(encoder, device="cpu", dtype=dtype)
    passes = frozen_passes(loaded, dtype=dtype)
    assert {value.dtype for value in loaded.parameters()} == {kept}
    assert (passes.packed, passes.bf16, passes.multiple) == (False, kept is torch.bfloat16, 1)


@pytest.mark.parametrize(("dtype", "packed"), [("auto", True), ("bfloat16", True), ("float32", False)])
def test_windows_are_packed_on_a_gpu_but_not_in_float32_which_its_kernel_lacks(
    dtype: Dtype, encoder: str, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    loaded = load_frozen(encoder, device="cpu", dtype="float32")
    monkeypatch.setattr(Encoder, "device", torch.device("cuda"))
    assert frozen_passes(loaded, dtype=dtype).packed == packed


def test_states_in_bfloat16_are_near_those_in_float32(encoder: str, tmp_path: Path) -> None:
    data = write_questions(tmp_path)
    exact, rough = (
        freeze_task(tiny_fit("squad2", data, encoder, HEAD, dtype=dtype)) for dtype in ("float32", "bfloat16")
    )
    expected, found = (
        frozen.states(frozen.train, range(3)).batch(np.arange(8)).hidden.states for frozen in (exact, rough)
    )
    assert (expected.dtype, found.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(found.float(), expected, rtol=HALF, atol=HALF)


def test_rows_in_memory_are_float32_however_they_were_computed(encoder: str, tmp_path: Path) -> None:
    frozen = freeze_task(tiny_fit("sst2", write_labels(tmp_path), encoder, HEAD, pool="mean", dtype="bfloat16"))
    states = frozen.states(frozen.train, range(3)).batch(np.arange(8)).hidden.states
    assert states.dtype == torch.float32
    assert not torch.equal(states, states.bfloat16().float())  # means are not rounded once more


def test_heads_of_every_kind_learn_and_are_evaluated_in_bfloat16_on_a_cpu(encoder: str, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data")
    heads = [HeadSpec(head=name) for name in KINDS]
    result = fit_heads(tiny_fit("squad2", data, encoder, *heads, dtype="bfloat16"), tmp_path / "run")
    assert {value.dtype for value in head_tensors(result.run).values() if value.is_floating_point()} == {torch.float32}
    rows = evaluate(result.run, resamples=100, device="cpu").record.rows
    assert len(rows) == len(KINDS)
