"""Whole runs with heads other than the plain one, learnt jointly with a tiny encoder or on top of it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertForQuestionAnswering, BertForSequenceClassification

from bertvision.encoder.batch import packed_batch, padded_batch
from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from bertvision.heads import Head, HeadOptions, HeadShape, load_head
from bertvision.runs.folder import RunFolder
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuning import tuning as tuning_module
from bertvision.runs.tuning.tune import tune
from bertvision.runs.tuning.tuning import TuneResult
from bertvision.tasks.load import load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training import tune as loop_module
from bertvision.training.checkpoint import Progress
from bertvision.training.model import TunedModel
from bertvision.training.processes import Processes
from bertvision.training.schedule import rate_factor
from close import EXACT, FLOAT32
from tiny_run import (
    WIDTH,
    WINDOWS,
    losses,
    read_tensors,
    same_state,
    save_tiny_encoder,
    tiny_config,
    tiny_request,
    write_labels,
    write_questions,
    write_scores,
)

XCEPTION: HeadOptions = {"stem": (4, 4), "entry": (8, 8), "middle": 1}
LADDER: HeadOptions = {"size": 16, "heads": 2, "dropout": 0.0}

CASES: list[tuple[str, str, HeadOptions, str]] = [
    ("squad2", "dot_attention", {}, "full"),
    ("squad2", "adapter_pool", {"size": 4}, "full"),
    ("squad2", "context_conv", {"mask_question": True}, "full"),
    ("squad2", "ladder", LADDER, "none"),
    ("sst2", "dot_attention", {"layers": "0..2"}, "full"),
    ("sst2", "adapter_pool", {"size": 4, "skip": True}, "lora:4"),
    ("sst2", "ladder", LADDER, "none"),
    ("sst2", "xception", XCEPTION, "full"),
]


Ask = Callable[..., TuneRequest]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Makes requests for a task of any kind, of an encoder with dropout, as real ones have it."""
    folder = tmp_path_factory.mktemp("data")
    encoder = save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)
    data = {
        "squad2": write_questions(folder / "squad2"),
        "sst2": write_labels(folder / "sst2"),
        "own": write_scores(folder / "own"),
    }

    def make(task: str, **changes: Any) -> TuneRequest:  # noqa: ANN401 - any field
        return tiny_request(task, data[task], **({"encoder": encoder} | changes))

    return make


def dev_windows(request: TuneRequest) -> Windows:
    """The dev split of a request's data, cut as its run cuts it."""
    loaded = load_task(request.task, data=request.data, columns=request.columns, skip_bad=False)
    return build_windows(loaded.task, loaded.splits["dev"], TextTokenizer.load(request.encoder), WINDOWS)


@torch.no_grad()
def outputs(model: TunedModel, windows: Windows) -> Tensor:
    """What a model says of every real row."""
    rows, mask = model.eval()(padded_batch(windows, np.arange(len(windows))))
    real: Tensor = rows[mask]
    return real


def tune_and_keep(request: TuneRequest, out: Path) -> tuple[TuneResult, TunedModel]:
    """Tune, and catch the tuned model on its way out."""
    caught: list[TunedModel] = []
    finish = tuning_module._finish  # noqa: SLF001 - the last one to see the model

    def catch(folder: RunFolder, model: TunedModel, progress: Progress, accelerator: Processes) -> None:
        caught.append(model)
        finish(folder, model, progress, accelerator)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning_module, "_finish", catch)
        result = tune(request, out)
    return result, caught[0]


def again(result: TuneResult) -> TunedModel:
    """The tuned model, put together from the last snapshot's files."""
    snapshot = result.snapshots[-1]
    pool = None if snapshot.task.startswith("squad") else snapshot.pool
    encoder = load_encoder(str(result.run), pooler=snapshot.pooled)
    return TunedModel(encoder, load_head(snapshot.folder), pool=pool, pooled=snapshot.pooled)  # type: ignore[arg-type]  # a word of two


def first_head(request: TuneRequest, out: Path) -> Head:
    """The head of a run that hardly learns."""
    barely = replace(request, options=replace(request.options, epochs=0.01, lr=1e-9, head_lr=1e-9))
    return load_head(tune(barely, out).snapshots[0].folder)


@pytest.mark.parametrize(("task", "head", "options", "learn"), CASES)
def test_a_head_learns_with_the_encoder_and_its_files_give_the_tuned_model(
    *, task: str, head: str, options: HeadOptions, learn: str, ask: Ask, tmp_path: Path
) -> None:
    request = ask(task, head=head, head_options=options, learn=learn, epochs=8)
    request = replace(request, options=replace(request.options, head_lr=2e-2), snapshots=(0.4,))
    result, model = tune_and_keep(request, tmp_path / "run")
    curve = losses(result.run)
    assert curve[-1] < 0.7 * curve[0]
    folder = result.snapshots[-1].folder
    assert {path.name for path in folder.iterdir()} == {
        *("snapshot.json", "encoder.safetensors"),
        *("head.json", "head.safetensors"),
    }
    assert result.snapshots[-1].head == head
    saved = load_head(folder)
    assert (saved.name, saved.full_shape) == (head, HeadShape(layers=3, width=WIDTH, outputs=2))
    assert saved.options.items() >= options.items()
    tolerance = FLOAT32 if learn.startswith("lora") else EXACT  # low-rank changes are merged
    windows = dev_windows(request)
    expected = outputs(model, windows)
    torch.testing.assert_close(outputs(again(result), windows), expected, rtol=tolerance, atol=tolerance)
    assert expected.std() > FLOAT32


@pytest.mark.parametrize("head", ["layer_mix", "context_conv"])
def test_a_tuned_head_says_the_same_of_packed_windows(head: str, ask: Ask, tmp_path: Path) -> None:
    request = ask("squad2", head=head, epochs=4)
    result = tune(request, tmp_path / "run")
    windows = dev_windows(request)
    with torch.no_grad():
        rows, mask = again(result).eval()(packed_batch(windows, np.arange(len(windows))))
    torch.testing.assert_close(rows[mask], outputs(again(result), windows), rtol=FLOAT32, atol=FLOAT32)


def test_what_learns_is_the_encoder_s_share_and_the_whole_head(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", head="adapter_pool", head_options={"size": 4}, learn="top:1")
    result = tune(request, tmp_path / "run")
    # 2,224 in the top layer, three LayerNorms of 32 below; the adapter 16·4 + 4, the output of three layers 2·12 + 2
    assert result.trainable == 2224 + 3 * 32 + 68 + 26
    assert sum(value.numel() for value in read_tensors(result.run).values()) == result.trainable


def test_the_running_statistics_of_a_head_are_kept_but_do_not_learn_by_gradient(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", head="xception", head_options=XCEPTION, learn="none")
    result = tune(request, tmp_path / "run")
    head = load_head(result.snapshots[-1].folder)
    running = {name: value for name, value in head.named_buffers() if "running" in name}
    assert len(running) == 2 * 8  # two convolutions of the stem, three of the first block, three of the second
    assert all(not torch.equal(value, torch.ones_like(value)) for name, value in running.items() if "variance" in name)
    assert result.trainable == sum(value.numel() for value in head.parameters())


@pytest.mark.parametrize(("task", "dropout"), [("squad2", 0.0), ("sst2", 0.1), ("own", 0.1)])
def test_without_a_head_the_plain_one_is_used(task: str, dropout: float, ask: Ask, tmp_path: Path) -> None:
    plain = first_head(ask(task), tmp_path / "plain")
    assert (plain.name, plain.options) == ("last_layer", {"dropout": dropout, "layers": "0..2"})
    request = ask(task, head_options={"dropout": "0.25", "layers": "0..1"})
    changed = first_head(request, tmp_path / "changed")
    assert (changed.name, changed.options) == ("last_layer", {"dropout": 0.25, "layers": "0..1"})
    named = first_head(ask(task, head="last_layer"), tmp_path / "named")
    assert named.options["dropout"] == 0.0  # the head's own


@pytest.mark.parametrize("head", ["layer_mix", "adapter_pool_64", "recurrent"])
def test_scores_start_at_their_mean_whatever_the_head(head: str, ask: Ask, tmp_path: Path) -> None:
    request = ask("own", head=head, held_out=0.0)
    saved = first_head(request, tmp_path / "run")
    rows = (Path(str(request.data)) / "train.csv").read_text(encoding="utf-8").splitlines()[1:]
    mean = sum(float(row.split(",")[1]) for row in rows) / len(rows)
    assert saved.project.bias.tolist() == pytest.approx([mean], abs=FLOAT32)


# ── a checkpoint's own output ────────────────────────────────────────────────


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint that answers questions, and has no pooler."""
    folder = save_tiny_encoder(tmp_path_factory.mktemp("answering"))
    torch.manual_seed(1)
    BertForQuestionAnswering(tiny_config()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def classifying(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint that tells two classes apart."""
    folder = save_tiny_encoder(tmp_path_factory.mktemp("classifying"))
    torch.manual_seed(1)
    BertForSequenceClassification(tiny_config()).save_pretrained(folder)
    return folder


def test_a_checkpoint_s_own_output_is_used_only_when_no_head_is_asked_for(
    ask: Ask, answering: str, classifying: str, tmp_path: Path
) -> None:
    own = BertForQuestionAnswering.from_pretrained(answering).qa_outputs.weight
    plain = first_head(ask("squad2", encoder=answering), tmp_path / "plain")
    asked = first_head(ask("squad2", encoder=answering, head="last_layer"), tmp_path / "asked")
    torch.testing.assert_close(plain.project.weight, own, rtol=0, atol=FLOAT32)
    assert not torch.allclose(asked.project.weight, own, rtol=0, atol=FLOAT32)
    assert (plain.name, asked.name) == ("last_layer", "last_layer")

    dense = BertForSequenceClassification.from_pretrained(classifying).bert.pooler.dense.weight
    taken = first_head(ask("sst2", encoder=classifying), tmp_path / "taken")
    other = first_head(ask("sst2", encoder=classifying, head="pooled_output"), tmp_path / "other")
    mixed = first_head(ask("sst2", encoder=classifying, head="layer_mix"), tmp_path / "mixed")
    assert (taken.name, other.name, mixed.name) == ("pooled_output", "pooled_output", "layer_mix")
    torch.testing.assert_close(taken.get_parameter("dense.weight"), dense, rtol=0, atol=FLOAT32)
    assert not torch.allclose(other.get_parameter("dense.weight"), dense, rtol=0, atol=FLOAT32)


def test_options_alone_are_those_of_a_checkpoint_s_own_output(ask: Ask, classifying: str, tmp_path: Path) -> None:
    request = ask("sst2", encoder=classifying, head_options={"dropout": 0.3})
    head = first_head(request, tmp_path / "run")
    assert (head.name, head.options["activation"], head.options["dropout"]) == ("pooled_output", "tanh", 0.3)
    with pytest.raises(BertVisionError, match="unknown option of head 'pooled_output' 'size'"):
        tune(replace(request, head_options={"size": 4}), tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


# ── the pooled vector as one more layer ──────────────────────────────────────


@pytest.mark.parametrize("task", ["sst2", "own"])
@pytest.mark.parametrize("learn", ["full", "top:1"])
def test_a_head_can_read_the_pooled_vector_which_learns_when_all_learn(
    task: str, learn: str, ask: Ask, tmp_path: Path
) -> None:
    request = ask(task, head="layer_mix", pooled=True, learn=learn, epochs=12)
    result, model = tune_and_keep(request, tmp_path / "run")
    curve = losses(result.run)
    assert curve[-1] < 0.7 * curve[0]
    snapshot = result.snapshots[-1]
    assert snapshot.pooled
    head = load_head(snapshot.folder)
    assert (head.full_shape.layers, head.reads) == (4, (0, 1, 2, 3))
    windows = dev_windows(request)
    torch.testing.assert_close(outputs(again(result), windows), outputs(model, windows), rtol=EXACT, atol=EXACT)

    before = load_encoder(request.encoder, pooler=True).model.get_parameter("pooler.dense.weight")
    after = load_encoder(str(result.run), pooler=True).model.get_parameter("pooler.dense.weight")
    assert torch.equal(after, model.encoder.model.get_parameter("pooler.dense.weight"))
    assert torch.equal(after, before) == (learn != "full")
    batch = padded_batch(windows, np.arange(len(windows)))
    plain = load_encoder(str(result.run))
    assert not plain.can_pool
    with torch.no_grad():
        torch.testing.assert_close(plain(batch).states, model.encoder(batch).states, rtol=EXACT, atol=EXACT)


def test_a_run_with_the_pooled_vector_can_be_tuned_further_without_it(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", head="layer_mix", pooled=True)
    first = tune(request, tmp_path / "first")
    second = tune(replace(request, encoder=str(first.run), pooled=False), tmp_path / "second")
    assert not second.snapshots[-1].pooled
    assert load_head(second.snapshots[-1].folder).full_shape.layers == 3
    third = tune(replace(request, encoder=str(second.run)), tmp_path / "third")
    assert load_encoder(str(third.run), pooler=True).can_pool


@pytest.mark.parametrize(
    ("task", "head", "message"),
    [
        ("squad2", "layer_mix", r"--pooled is for tasks with labels, tags or scores, not for squad2"),
        ("sst2", None, r"--pooled adds the pooled vector as layer 0, which head 'last_layer' does not read"),
        ("sst2", "dot_attention", r"which head 'dot_attention' does not read\. Use a head that reads every layer"),
    ],
)
def test_a_pooled_vector_that_nothing_reads_is_refused_before_anything_is_written(
    task: str, head: str | None, message: str, ask: Ask, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        tune(ask(task, head=head, pooled=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_encoder_without_a_pooled_vector_is_refused_before_anything_is_written(
    ask: Ask, answering: str, tmp_path: Path
) -> None:
    request = ask("sst2", encoder=answering, head="layer_mix", pooled=True)
    with pytest.raises(BertVisionError, match=r"--pooled: .*answering0 has no pooled vector\. Leave it out"):
        tune(request, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ── going on ─────────────────────────────────────────────────────────────────


class Stop(BaseException):
    """Stands for a kill: nothing may catch it."""


@pytest.mark.parametrize(
    ("task", "head", "options", "pooled"),
    [
        ("squad2", "layer_mix", {"layer_dropout": 0.3}, False),
        ("sst2", "xception", XCEPTION, False),
        ("sst2", "adapter_pool", {"size": 4}, True),
    ],
)
def test_a_run_with_a_head_that_dies_ends_as_if_nothing_had_happened(
    *, task: str, head: str, options: HeadOptions, pooled: bool, ask: Ask, tmp_path: Path
) -> None:
    request = ask(task, head=head, head_options=options, pooled=pooled, epochs=2, save_every=2)
    tune(request, tmp_path / "whole")
    for step in (3, 5, 8):

        def die(now: int, total: int, step: int = step, **more: Any) -> float:  # noqa: ANN401 - passed on
            if now == step:
                raise Stop
            return rate_factor(now, total, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop_module, "rate_factor", die)
            with pytest.raises(Stop):
                tune(request, tmp_path / "run", resume=True)
    tune(request, tmp_path / "run", resume=True)
    assert same_state(tmp_path / "whole", tmp_path / "run")


def test_a_run_goes_on_only_with_the_head_and_the_options_it_began_with(ask: Ask, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options: HeadOptions = {"size": 4, "skip": True}
    request = ask("sst2", head="adapter_pool", head_options=options)
    first = tune(request, run)
    asked = json.loads((run / "config.json").read_text(encoding="utf-8"))["request"]
    assert (asked["head"], asked["head_options"], asked["pooled"]) == ("adapter_pool", options, False)
    for other, message in (
        (replace(request, head="adapter_pool_own"), r"head was adapter_pool, is adapter_pool_own\."),
        (replace(request, head=None), r"head was adapter_pool, is None\."),
        (replace(request, head_options={"size": 8, "skip": True}), r"head_options\.size was 4, is 8\."),
        (replace(request, head_options={"size": 4}), r"head_options\.skip was True, is None\."),
        (replace(request, pooled=True), r"pooled was False, is True\."),
    ):
        with pytest.raises(BertVisionError, match=rf"was asked for something else: {message} Ask for the same"):
            tune(other, run, resume=True)
    assert tune(request, run, resume=True).metrics == first.metrics


def test_options_with_several_numbers_are_the_same_when_a_run_goes_on(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", head="xception", head_options=XCEPTION, learn="none")
    first = tune(request, tmp_path / "run")
    assert tune(request, tmp_path / "run", resume=True).metrics == first.metrics


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": "layer_mx"}, r"unknown head 'layer_mx'\. Did you mean 'layer_mix'\?"),
        (
            {"head": "adapter_pool", "head_options": {"sise": 4}},
            r"unknown option of head 'adapter_pool' 'sise'\. Did you mean 'size'\?",
        ),
        (
            {"head": "adapter_pool", "head_options": {"size": 0}},
            r"head 'adapter_pool': option size is 0, a whole number at least 1 is expected \(default: 386\)",
        ),
        ({"head": "layer_mix", "head_options": {"layers": "0..9"}}, r"option layers is '0\.\.9', such as 0\.\.2 is"),
        ({"head": "ladder", "head_options": {"size": 5}}, r"size is 5, a multiple of heads \(4\) is expected"),
        ({"head_options": {"size": 4}}, r"unknown option of head 'last_layer' 'size'"),
    ],
)
def test_a_head_that_there_is_none_of_is_refused_before_anything_is_written(
    changes: dict[str, object], message: str, ask: Ask, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        tune(ask("sst2", **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()
