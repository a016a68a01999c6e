"""The loop by itself: which parameters learn and how fast, what is written when, and when it stops."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from typing_extensions import override

from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.errors import BertVisionError
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows
from bertvision.training import tune as tune_module
from bertvision.training.checkpoint import Progress
from bertvision.training.data import TuneData, class_weights
from bertvision.training.model import TunedModel
from bertvision.training.options import TuneOptions
from bertvision.training.processes import join_processes
from bertvision.training.tune import build_optimizer, tune_encoder
from close import FLOAT32
from conftest import make_tags
from tiny_run import parameters, tiny_model

CPU = torch.device("cpu")


def label_data(classes: Sequence[int] = (0, 1) * 12) -> TuneData:
    """Windows of five tokens; those of class 1 have another second token."""
    count = len(classes)
    ids = np.random.default_rng(0).integers(12, 20, size=(count, 5))
    ids[:, 1] = 6 + np.array(classes)
    zeros = np.zeros(count, dtype=np.int64)
    windows = Windows(
        ids=ids.ravel().astype(np.int32),
        types=np.zeros(5 * count, dtype=np.uint8),
        bounds=5 * np.arange(count + 1),
        example=np.arange(count),
        targets=np.array(classes, dtype=np.int64),
        context=np.stack([zeros, zeros + 5], axis=1),
        context_token=zeros,
        offsets=np.zeros((0, 2), dtype=np.int32),
        truncated=0,
    )
    return TuneData(task=TASKS["sst2"], windows=windows, pool="cls", packed=False, pad=0)


@dataclass
class Notes:
    """A watcher that writes everything down and gives the scores it was made with."""

    scores: list[float | None] = field(default_factory=list)
    begun: tuple[int, int] | None = None
    steps: list[int] = field(default_factory=list)
    logged: dict[int, dict[str, float]] = field(default_factory=dict)
    kept: list[tuple[float, int]] = field(default_factory=list)
    saved: int = 0

    def on_begin(self, step: int, total: int) -> None:
        self.begun = (step, total)

    def on_step(self, step: int) -> None:
        self.steps.append(step)

    def on_log(self, step: int, values: dict[str, float]) -> None:
        self.logged[step] = values

    def on_snapshot(self, fraction: float, step: int) -> float | None:
        self.kept.append((fraction, step))
        return self.scores[len(self.kept) - 1] if self.scores else None

    def on_saved(self, seconds: float) -> None:
        assert seconds > 0
        self.saved += 1


def tune(
    run: Path,
    notes: Notes,
    model: TunedModel | None = None,
    *,
    data: TuneData | None = None,
    options: TuneOptions | None = None,
    fractions: Sequence[float] = (1,),
    save_every: int | None = None,
    rate: float = 5e-3,
) -> Progress:
    return tune_encoder(
        model or tiny_model(),
        data or label_data(),
        options or TuneOptions(batch=4, warmup=0.0),
        run=run,
        fractions=fractions,
        watcher=notes,
        accelerator=join_processes(cpu=True),
        rate=rate,
        save_every=save_every,
    )


@pytest.mark.parametrize("learn", ["full", "top:1", "bitfit", "lora:2", "houlsby:2", "none"])
def test_the_optimiser_takes_what_learns_in_groups_of_like_rate_and_decay(learn: str) -> None:
    model = tiny_model()
    apply_learn(model.encoder, parse_learn(learn))
    optimizer = build_optimizer(model, TuneOptions(head_lr=0.25, weight_decay=0.125), 0.5)
    found = {
        id(value): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for value in group["params"]
    }
    assert optimizer.defaults["fused"]  # on a CPU, too, where single steps take many times as long
    learning = {name: value for name, value in model.named_parameters() if value.requires_grad}
    assert set(found) == {id(value) for value in learning.values()}
    for name, value in learning.items():
        plain = name.endswith("bias") or "LayerNorm" in name
        assert found[id(value)] == (0.25 if name.startswith("head.") else 0.5, 0.0 if plain else 0.125), name


def test_a_head_s_weights_decay_alike_whether_its_encoder_learns_or_not() -> None:
    model = tiny_model(head="layer_weights")
    model.encoder.requires_grad_(requires_grad=False)
    tuned = build_optimizer(model, TuneOptions(weight_decay=0.125), 0.5)
    decays = {id(value): group["weight_decay"] for group in tuned.param_groups for value in group["params"]}
    assert {name: decays[id(value)] for name, value in model.head.named_parameters()} == {
        "mix": 0.0,
        "scale": 0.0,
        "project.weight": 0.125,
        "project.bias": 0.0,
    }


def test_only_what_learns_is_changed(tmp_path: Path) -> None:
    model = tiny_model()
    apply_learn(model.encoder, parse_learn("top:1:strict"))
    before = parameters(model)
    tune(tmp_path, Notes(), model)
    changed = {name for name, value in parameters(model).items() if not torch.equal(value, before[name])}
    # a bias of keys shifts all of a token's scores alike, so that its gradient is zero but for rounding
    learning = {name for name, value in model.named_parameters() if value.requires_grad and "key.bias" not in name}
    assert changed - {name for name in changed if "key.bias" in name} == learning
    assert all(name.startswith(("encoder.model.encoder.layer.1.", "head.")) for name in changed)


def test_the_encoder_and_the_head_learn_at_their_own_rates(tmp_path: Path) -> None:
    model = tiny_model()
    before = parameters(model)
    options = TuneOptions(batch=24, epochs=1, schedule="constant", warmup=0.0, weight_decay=0.0, head_lr=1e-2, clip=0.0)
    tune(tmp_path, Notes(), model, options=options, rate=1e-3)
    # Adam's first step is as long as the rate wherever there is a gradient worth the name
    moved = {name: float((value - before[name]).abs().max()) for name, value in parameters(model).items()}
    assert moved["head.project.weight"] == pytest.approx(1e-2, rel=1e-2)
    assert moved["encoder.model.encoder.layer.0.output.dense.weight"] == pytest.approx(1e-3, rel=1e-2)


def test_the_log_has_the_mean_loss_and_the_rate_and_the_last_step(tmp_path: Path) -> None:
    notes = Notes()
    options = TuneOptions(batch=1, epochs=2, warmup=0.0, schedule="linear")
    tune(tmp_path, notes, options=options, fractions=[0.5, 2], rate=0.048)
    assert notes.begun == (0, 48)
    assert notes.kept == [(0.5, 12), (2, 48)]
    assert list(notes.logged) == [1, 12, 20, 40, 48]  # the first step by itself: it may compile
    assert notes.steps == list(range(1, 49))
    # the rate of step 12 was set before it, when 11 of 48 had been made
    rates = [values["lr"] for values in notes.logged.values()]
    assert rates == pytest.approx([0.048, 0.037, 0.029, 0.009, 0.001], abs=FLOAT32)
    assert notes.saved == 2  # after each snapshot


def test_the_first_loss_is_that_of_a_model_that_knows_nothing(tmp_path: Path) -> None:
    model, notes = tiny_model(), Notes()
    for value in model.head.parameters():
        nn.init.zeros_(value)
    tune(tmp_path, notes, model, options=TuneOptions(batch=24, warmup=0.0))
    assert notes.logged[1]["loss"] == pytest.approx(math.log(2), abs=FLOAT32)


@pytest.mark.parametrize("accumulate", [2, 3, 99])
def test_a_batch_in_parts_learns_the_same(accumulate: int, tmp_path: Path) -> None:
    models = []
    for parts in (1, accumulate):
        model, notes = tiny_model(), Notes()
        options = TuneOptions(batch=8, epochs=1, accumulate=parts, warmup=0.0)
        tune(tmp_path / str(parts), notes, model, options=options, rate=1e-3)
        models.append((parameters(model), notes.logged[3]["loss"]))
    (whole, loss), (in_parts, parts_loss) = models
    assert parts_loss == pytest.approx(loss, abs=FLOAT32)
    for name, value in whole.items():
        if "key.bias" not in name:  # its gradient is zero but for rounding, which Adam makes as long as any other
            torch.testing.assert_close(in_parts[name], value, atol=FLOAT32, rtol=0, msg=name)


def test_a_short_leash_holds_the_gradient_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[float] = []
    clip: Callable[..., torch.Tensor] = nn.utils.clip_grad_norm_

    def note(values: list[nn.Parameter], longest: float) -> torch.Tensor:
        before = clip(values, longest)
        lengths.append(float(torch.stack([value.grad.norm() for value in values if value.grad is not None]).norm()))
        return before

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", note)
    tune(tmp_path, Notes(), options=TuneOptions(batch=12, clip=0.01))
    assert lengths == pytest.approx([0.01, 0.01], rel=1e-3)
    tune(tmp_path, Notes(), options=TuneOptions(batch=12, clip=0.0))
    assert len(lengths) == 2


def test_it_stops_when_it_no_longer_pays(tmp_path: Path) -> None:
    notes = Notes(scores=[0.5, 0.6, 0.6, math.nan, 0.9, 0.9])
    options = TuneOptions(batch=4, patience=2, warmup=0.0)
    progress = tune(tmp_path, notes, options=options, fractions=[1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])
    assert [step for _, step in notes.kept] == [1, 2, 3, 4]
    assert progress == Progress(step=4, best=0.6, stale=2)


def test_a_run_that_had_stopped_does_not_go_on(tmp_path: Path) -> None:
    options = TuneOptions(batch=4, patience=1, warmup=0.0)
    fractions = [1 / 6, 2 / 6, 1]
    tune(tmp_path, Notes(scores=[0.5, 0.5]), options=options, fractions=fractions)
    again = Notes()
    progress = tune(tmp_path, again, options=options, fractions=fractions)
    assert (progress.step, again.begun, again.kept) == (2, (2, 6), [])


def test_scores_that_are_not_defined_are_no_better_and_no_checkpoint_fails_over_them(tmp_path: Path) -> None:
    progress = tune(tmp_path, Notes(scores=[math.nan, 0.1]), fractions=[0.5, 1])
    assert progress == Progress(step=6, best=0.1, stale=0)


def test_without_a_score_it_never_stops_early(tmp_path: Path) -> None:
    options = TuneOptions(batch=4, patience=1, warmup=0.0)
    assert tune(tmp_path, Notes(), options=options, fractions=[1 / 6, 2 / 6, 1]).step == 6


def test_checkpoints_are_made_as_often_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(tune_module, "save_checkpoint", lambda _run, progress, *_: made.append(progress.step))
    tune(tmp_path, Notes(), options=TuneOptions(batch=2), save_every=5, fractions=[0.5, 1])
    assert made == [5, 6, 10, 12]


def test_checkpoints_are_made_by_the_clock_unless_asked_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(tune_module, "save_checkpoint", lambda _run, progress, *_: made.append(progress.step))
    monkeypatch.setattr(tune_module, "LOG_STEPS", 3)
    tune(tmp_path, Notes(), options=TuneOptions(batch=2))
    assert made == [12]  # that of the snapshot: it took less than a minute
    made.clear()
    monkeypatch.setattr(tune_module, "SAVE_SECONDS", -1.0)
    tune(tmp_path, Notes(), options=TuneOptions(batch=2))
    assert made == [3, 6, 9, 12]


def test_a_batch_that_the_gpu_has_no_room_for_is_told_with_what_to_do(tmp_path: Path) -> None:
    model, notes = tiny_model(), Notes()

    def full(*_: object) -> None:
        if notes.kept:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    model.register_forward_pre_hook(full)
    expected = (
        r"no room for 4 windows at once\. Snapshots made before are kept; "
        r"use a smaller --batch or, unless --loss is in-batch, --accumulate 4, and another --out\."
    )
    with pytest.raises(BertVisionError, match=expected):
        tune(tmp_path, notes, model, options=TuneOptions(batch=8, accumulate=2), fractions=[1 / 3, 1])
    assert notes.kept == [(1 / 3, 1)]


def model_about_to_overflow() -> TunedModel:
    """A huge weight that no window reads: a step with a large rate makes it infinite, by decay alone."""
    model = tiny_model()
    model.encoder.model.get_parameter("embeddings.position_embeddings.weight").data[60] = 3e38
    return model


def test_weights_that_are_not_finite_are_not_kept(tmp_path: Path) -> None:
    notes = Notes()
    with pytest.raises(BertVisionError, match=r"weights are not finite after step 1\. Snapshots made before are kept"):
        tune(tmp_path, notes, model_about_to_overflow(), options=TuneOptions(batch=24, warmup=0.0), rate=1e5)
    assert notes.kept == []
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_not_replaced_by_one_that_is_not_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leap(step: int, *_: int, **__: object) -> float:
        return 1e8 if step == 3 else 1.0

    monkeypatch.setattr(tune_module, "rate_factor", leap)
    with pytest.raises(BertVisionError, match="not finite after step 4"):
        tune(tmp_path, Notes(), model_about_to_overflow(), options=TuneOptions(batch=4), save_every=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-3"]


def test_processes_that_do_not_see_the_same_folder_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_module, "gather", lambda _accelerator, value: [value, 7])
    with pytest.raises(BertVisionError, match=r"would go on from steps \[0, 7\]\. All of them must see the folder"):
        tune(tmp_path, Notes())


def test_every_process_draws_its_own_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = join_processes(cpu=True)
    seeds = []

    class Drawing(Notes):
        @override
        def on_begin(self, step: int, total: int) -> None:
            seeds.append(torch.initial_seed())

    for number in (0, 1, 1):
        process = SimpleNamespace(num_processes=1, device=CPU, reduce=joined.reduce, backward=joined.backward)
        process.process_index = number
        monkeypatch.setattr(f"{__name__}.join_processes", lambda process=process, **_: process)
        tune(tmp_path / str(len(seeds)), Drawing())
    assert seeds[1] == seeds[2] != seeds[0]


def test_it_learns_with_dropout_after_a_snapshot_as_before(tmp_path: Path) -> None:
    class Scoring(Notes):
        @override
        def on_snapshot(self, fraction: float, step: int) -> float | None:
            model.eval()
            return super().on_snapshot(fraction, step)

    curves = []
    for notes in (Notes(), Scoring()):
        model = tiny_model(dropout=0.3)
        tune(tmp_path / type(notes).__name__, notes, model, fractions=[1 / 6, 1])
        curves.append(notes.logged)
    assert curves[0] == curves[1]


def weights_of(labels: list[int]) -> torch.Tensor:
    data = label_data(labels)
    return class_weights(data.task, data.windows.targets)


def test_class_weights_let_every_class_count_the_same() -> None:
    weights = weights_of([0] * 6 + [1] * 2)
    # 8 examples, 2 classes: 4 for each class, over 6 and over 2 examples
    assert weights.tolist() == pytest.approx([4 / 6, 4 / 2])


def test_a_class_without_examples_does_not_count() -> None:
    assert weights_of([0] * 6)[0] == 1.0


def test_class_weights_change_what_is_learnt(tmp_path: Path) -> None:
    data = label_data([0] * 20 + [1] * 4)
    lost = []
    for weighted in (False, True):
        notes = Notes()
        model = tiny_model()
        nn.init.zeros_(model.head.get_parameter("project.weight"))
        model.head.get_parameter("project.bias").data.copy_(torch.tensor([math.log(5.0), 0.0]))
        options = TuneOptions(batch=24, warmup=0.0, class_weights=weighted)
        tune(tmp_path / str(weighted), notes, model, data=data, options=options)
        lost.append(notes.logged[1]["loss"])
    # a model that says 5/6 and 1/6 whatever it reads: once per example, and half by half
    rare, common = -math.log(1 / 6), -math.log(5 / 6)
    assert lost == pytest.approx([(20 * common + 4 * rare) / 24, (common + rare) / 2], abs=FLOAT32)


@pytest.mark.parametrize("task", [TASKS["squad2"], TASKS["sts"], make_tags("a", "b")])
def test_class_weights_are_for_classes_only(task: Task, tmp_path: Path) -> None:
    data = label_data()
    other = TuneData(task=task, windows=data.windows, pool="cls", packed=False, pad=0)
    expected = f"--class-weights is for tasks with one label per text; {task.name} asks for {task.kind}"
    with pytest.raises(BertVisionError, match=expected):
        tune(tmp_path, Notes(), data=other, options=TuneOptions(class_weights=True))


def test_bfloat16_computes_less_exactly_and_still_learns(tmp_path: Path) -> None:
    data = label_data()
    rough = TuneData(task=data.task, windows=data.windows, pool="cls", packed=False, pad=0, bf16=True)
    curves = []
    for each in (data, rough):
        notes, model = Notes(), tiny_model()
        tune(tmp_path / str(each.bf16), notes, model, data=each, options=TuneOptions(batch=4, epochs=12, warmup=0.0))
        curves.append([values["loss"] for values in notes.logged.values()])
        assert all(value.dtype == torch.float32 for value in model.parameters())
    assert curves[0] != curves[1]
    assert curves[1][-1] < 0.5 * curves[1][0]
