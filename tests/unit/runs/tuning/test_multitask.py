"""Several tasks on one encoder, from names to a folder of results."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from bertvision.heads import load_head
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.judging.evaluate import evaluate
from bertvision.runs.tuning.multitask import cut_windows, metrics_by_task, multitask, multitask_inputs
from bertvision.tasks.load import load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.training import tune as tune_module
from bertvision.training.schedule import rate_factor
from bertvision.training.trainee import HeadSpec
from tiny_run import (
    read_lines,
    read_tensors,
    same_state,
    save_tiny_encoder,
    tiny_fit,
    tiny_multitask,
    write_several,
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_several(tmp_path_factory.mktemp("data"))


class KilledError(Exception):
    """Ends a run from outside."""


def test_every_task_has_its_scores_and_its_head(encoder: str, data: str, tmp_path: Path) -> None:
    request = tiny_multitask(
        "sst2,sts,quora,squad2",
        data,
        encoder,
        heads_of={"squad2": "last_layer", "sst2": "layer_mix"},
        snapshots=(0.5,),
    )
    result = multitask(request, tmp_path / "run")
    found = metrics_by_task(result.metrics)
    assert list(found) == ["sst2", "sts", "quora", "squad2"]
    assert {"accuracy", "held_out_accuracy"} <= set(found["sst2"])
    assert {"pearson", "spearman"} <= set(found["sts"])
    assert {"accuracy", "f1"} <= set(found["quora"])
    assert {"f1", "best_f1", "f1_fitted"} <= set(found["squad2"])
    assert [snapshot.fraction for snapshot in result.snapshots] == [0.5, 1.0]
    heads = {name: load_head(result.snapshots[-1].folder / "heads" / name) for name in found}
    assert {name: head.name for name, head in heads.items()} == {
        "sst2": "layer_mix",
        "sts": "dense_stack",
        "quora": "dense_stack",
        "squad2": "last_layer",
    }
    assert heads["sts"].shape.width == 2 * heads["squad2"].shape.width  # pairs apart have two vectors


@pytest.mark.parametrize("read", ["apart", "pair"])
def test_all_tasks_learn_with_pairs_apart_and_together(encoder: str, data: str, read: str, tmp_path: Path) -> None:
    heads = dict.fromkeys(("sst2", "sts", "quora"), "last_layer")
    request = tiny_multitask(
        "sst2,sts,quora", data, encoder, epochs=6, input=read, order="round-robin", pool="mean", heads_of=heads
    )
    found = metrics_by_task(multitask(request, tmp_path / "run").metrics)
    assert found["sst2"]["accuracy"] == 1.0
    assert found["quora"]["accuracy"] == 1.0
    assert found["sts"]["pearson"] > 0.9


def test_a_killed_run_ends_as_if_nothing_had_happened(
    encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = tiny_multitask(
        "sst2,sts", data, encoder, epochs=2, order="temperature", balance=True, caps={"sts": 9}, save_every=3
    )
    multitask(request, tmp_path / "whole")

    def die(step: int, total: int, **more: object) -> float:
        if step == 8:
            raise KilledError
        return rate_factor(step, total, **more)  # type: ignore[arg-type]  # passed on

    with monkeypatch.context() as patch:
        patch.setattr(tune_module, "rate_factor", die)
        with pytest.raises(KilledError):
            multitask(request, tmp_path / "killed")
    multitask(request, tmp_path / "killed", resume=True)
    assert same_state(tmp_path / "killed", tmp_path / "whole")


def test_a_head_does_not_move_while_other_tasks_learn(encoder: str, data: str, tmp_path: Path) -> None:
    request = tiny_multitask("sst2,sts", data, encoder, snapshots=(0.5,), weight_decay=0.1)
    run = multitask(request, tmp_path / "run").run  # five steps of sst2, then five of sts
    tensors = read_tensors(run)
    sst2 = [name for name in tensors if name.startswith("snapshots/0.5/heads/sst2")]
    assert sst2
    assert all(torch.equal(tensors[name], tensors[name.replace("/0.5/", "/1/")]) for name in sst2)
    sts = [name for name in tensors if name.startswith("snapshots/0.5/heads/sts") and name.endswith("weight")]
    assert not all(torch.equal(tensors[name], tensors[name.replace("/0.5/", "/1/")]) for name in sts)


def test_with_a_frozen_encoder_heads_alone_learn(encoder: str, data: str, tmp_path: Path) -> None:
    result = multitask(tiny_multitask("sst2,sts", data, encoder, learn="none"), tmp_path / "run")
    heads = [load_head(result.snapshots[-1].folder / "heads" / name) for name in ("sst2", "sts")]
    assert result.trainable == sum(value.numel() for head in heads for value in head.parameters())
    before, after = (load_encoder(name).model.state_dict() for name in (encoder, str(result.run)))
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_a_run_for_several_tasks_is_an_encoder_for_others(encoder: str, data: str, tmp_path: Path) -> None:
    first = multitask(tiny_multitask("sst2,sts", data, encoder, learn="lora:2"), tmp_path / "first")
    second = multitask(tiny_multitask("quora", data, str(first.run)), tmp_path / "second")
    assert second.snapshots[-1].encoder == str(first.run)
    spec = HeadSpec(head="last_layer", fraction=1.0)
    fitted = fit_heads(tiny_fit("sst2", data, f"{second.run}", spec), tmp_path / "fit")
    assert len(fitted.leaderboard) == 1


def test_there_is_no_single_output_to_evaluate(encoder: str, data: str, tmp_path: Path) -> None:
    result = multitask(tiny_multitask("sst2", data, encoder), tmp_path / "run")
    with pytest.raises(BertVisionError, match=r"was not tuned for one task with one head.*bertvision fit TASK"):
        evaluate(result.run)


def test_labels_are_counted_before_and_after_balancing(encoder: str, tmp_path: Path) -> None:
    root = Path(write_several(tmp_path / "data", train=40))
    lines = (root / "SST-2" / "train.tsv").read_text(encoding="utf-8").splitlines()
    rare = [line for line in lines[1:] if line.endswith("1")][:4]
    kept = [lines[0], *rare, *(line for line in lines[1:] if line.endswith("0"))]
    (root / "SST-2" / "train.tsv").write_text("\n".join(kept) + "\n", encoding="utf-8")
    for balance in (False, True):
        request = tiny_multitask("sst2,sts,squad2", str(root), encoder, balance=balance, held_out=0.0)
        run = multitask(request, tmp_path / str(balance)).run
        counts = json.loads((run / "labels.json").read_text(encoding="utf-8"))["tasks"]
        assert list(counts) == ["sst2", "sts"]  # spans have no labels
        assert counts["sst2"]["train"] == {"0": 20, "1": 4}
        assert sum(counts["sst2"]["learnt"].values()) == 24
        assert (counts["sst2"]["learnt"]["1"] > 6) == balance
        assert counts["sst2"]["dev"] == {"0": 6, "1": 6}
        assert set(counts["sts"]["train"]) == {"0", "5"}


def test_predictions_are_kept_one_by_one(encoder: str, data: str, tmp_path: Path) -> None:
    result = multitask(tiny_multitask("sst2,sts", data, encoder), tmp_path / "run")
    kept = json.loads((result.run / "predictions" / "sst2.json").read_text(encoding="utf-8"))
    right = np.array(kept["gold"]) == np.array(kept["predicted"])
    assert len(kept["ids"]) == len(right) == 12
    assert right.mean() == pytest.approx(result.metrics["sst2.accuracy"])


def test_inputs_differ_in_what_the_encoder_reads(encoder: str, data: str) -> None:
    loaded = load_task("quora", data=data)
    dev, tokenizer = loaded.splits["dev"], TextTokenizer.load(encoder)
    apart, pair, qa = (
        cut_windows(tiny_multitask("quora", data, encoder, input=name), loaded.task, dev, tokenizer)
        for name in ("apart", "pair", "qa")
    )
    assert apart.second is not None
    assert pair.second is qa.second is None
    # [CLS] a b c [SEP] and [CLS] good a 0 [SEP]; together they share [CLS]
    assert (apart.lengths[0], apart.second.lengths[0], pair.lengths[0]) == (5, 5, 9)
    assert len(set(qa.lengths - pair.lengths)) == 1  # question and two labels of sentences, the same for all
    assert (qa.lengths > pair.lengths).all()


def test_spans_are_the_same_in_every_input(encoder: str, data: str, tmp_path: Path) -> None:
    request = tiny_multitask("squad2", data, encoder, heads_of={"squad2": "last_layer"})
    results = multitask_inputs(request, ("apart", "pair", "qa"), tmp_path / "runs")
    assert list(results) == ["apart", "pair", "qa"]
    curves = [read_lines(result.run) for result in results.values()]
    assert curves[0] == curves[1] == curves[2]
    assert same_state(tmp_path / "runs" / "apart", tmp_path / "runs" / "qa")


def test_the_mean_held_out_score_of_all_tasks_says_when_to_stop(encoder: str, data: str, tmp_path: Path) -> None:
    # a rate of almost nothing: no snapshot is better than the first
    request = tiny_multitask(
        "sst2,squad2", data, encoder, epochs=4, snapshots=(1, 2, 3), patience=1, lr=1e-12, head_lr=1e-12
    )
    result = multitask(request, tmp_path / "run")
    assert [snapshot.fraction for snapshot in result.snapshots] == [1, 2]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("sst2,sst2", {}), "sst2 is named 2 times, once is expected"),
        (("sst2,sst3", {}), "unknown task 'sst3'"),
        (("", {}), "--tasks names no task"),
        (("sst2", {"temperature": 0.0}), "--temperature is 0, more than 0 is expected"),
        (("sst2", {"caps": {"sst2": 0}}), "--cap sst2 is 0, at least 1 is expected"),
        (("sst2", {"caps": {"sts": 5}}), "--cap names sts, which is none of the tasks sst2"),
        (("sst2", {"heads_of": {"sts": "layer_mix"}}), "--heads names sts"),
        (("sst2", {"heads_of": {"sst2": "dense_stak"}}), "Did you mean 'dense_stack'"),
        (("sst2", {"options_of": {"sst2": {"sise": "3"}}}), "Did you mean 'size'"),
        (("quora", {"heads_of": {"quora": "context_conv"}}), "looks at several tokens.*Use --input pair or qa"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    asked: tuple[str, dict[str, object]], message: str, encoder: str, data: str, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        multitask(tiny_multitask(asked[0], data, encoder, **asked[1]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
