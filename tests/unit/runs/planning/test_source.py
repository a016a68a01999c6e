"""Fits that choose where their states come from, and keep to it."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertvision.errors import BertVisionError, DivergedError
from bertvision.inference.outputs import BATCH_TOKENS
from bertvision.inference.shared_rows import SharedRows
from bertvision.runs.fitting.extract import ExtractRequest, extract_states
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.frozen import freeze_task
from bertvision.runs.planning import source as source_module
from bertvision.runs.planning.plan_costs import RowRates, Source
from bertvision.runs.planning.plan_fit import plan_fit
from bertvision.runs.planning.source import plan_source, row_work, span_work
from bertvision.store import writer as writer_module
from bertvision.training import fit as loop_module
from bertvision.training.trainee import HeadSpec
from folders import everything
from tiny_plan import RATES, rates
from tiny_run import read_lines, same_heads, save_tiny_encoder, tiny_fit, write_labels, write_pairs
from tiny_run import write_questions as write_squad
from tiny_store import small_shards

PLAIN = HeadSpec(head="last_layer", lr=2e-2)
MIX = HeadSpec(head="layer_mix", lr=2e-2, seed=1)

Ask = Callable[..., FitRequest]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Makes requests whose source is `auto`."""
    folder = tmp_path_factory.mktemp("data")
    encoder = save_tiny_encoder(tmp_path_factory.mktemp("encoder"))
    data = {
        "squad2": write_squad(folder / "squad2"),
        "sst2": write_labels(folder / "sst2"),
        "own": write_pairs(folder / "own"),
    }

    def make(task: str, *heads: HeadSpec, **changes: Any) -> FitRequest:  # noqa: ANN401 - any field
        return tiny_fit(task, data[task], encoder, *heads, **{"source": "auto", **changes})

    return make


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are looked for where the program runs."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def slow_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which a store pays."""
    monkeypatch.setattr(source_module, "rough_rate", lambda *_: 1.0)
    monkeypatch.setattr(source_module, "measure_spans", lambda *_: RATES)


def forbid_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        pytest.fail("something was measured")

    for name in ("measure_spans", "measure_rows", "rough_rate"):
        monkeypatch.setattr(source_module, name, fail)


def plan_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "plan.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("epochs", [0.5, 1.0])
def test_up_to_one_epoch_nothing_is_measured(
    epochs: float, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_measuring(monkeypatch)
    request = ask("squad2", PLAIN, epochs=epochs)
    result = fit_heads(request, tmp_path / "run")
    assert plan_of(result.run)["chosen"]["kind"] == "stream"
    [notice] = [notice for notice in result.notices if "States" in notice]
    assert notice.endswith("so it cannot pay.")
    streamed = fit_heads(replace(request, source="stream"), tmp_path / "streamed")
    assert same_heads(result.run, streamed.run)
    assert not (streamed.run / "plan.json").exists()


def test_what_takes_seconds_is_not_worth_measuring(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(source_module, "measure_spans", lambda *_: pytest.fail("it was measured"))
        result = fit_heads(ask("squad2", PLAIN, epochs=8.0), tmp_path / "run")
    assert plan_of(result.run)["reasons"][0].startswith("States are streamed: all encoding takes about ")


def test_rows_are_kept_in_memory_without_measuring(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_measuring(monkeypatch)
    result = fit_heads(ask("sst2", PLAIN, MIX, epochs=4.0), tmp_path / "run")
    assert plan_of(result.run)["chosen"]["kind"] == "memory"


@pytest.mark.usefixtures("slow_encoder")
def test_a_store_is_made_read_and_removed(ask: Ask, tmp_path: Path) -> None:
    request = ask("squad2", PLAIN, MIX, epochs=5.0)
    told: list[str] = []

    def show(step: int, total: int, values: object, *, doing: str = "") -> None:
        assert (step <= total, values is not None) == (True, True)
        told.append(doing)

    result = fit_heads(request, tmp_path / "run", show=show)
    assert plan_of(result.run)["chosen"] == {"kind": "store", "keep": "fp16", "layers": "0..2", "folder": None}
    [notice] = [notice for notice in result.notices if "States" in notice]
    assert notice.startswith("States are read from a store of fp16: about ")
    assert told[:2] == ["planning where states come from …", notice]
    assert told.index("windows of train") < told.index("judging heads at 5 epochs …")
    assert sorted(path.name for path in result.run.iterdir()) == [
        *("config.json", "heads", "leaderboard.json", "metrics.jsonl", "plan.json", "result.json")
    ]
    extract_states(_extraction(request), tmp_path / "store")
    stored = fit_heads(replace(request, source=f"store:{tmp_path / 'store'}"), tmp_path / "stored")
    streamed = fit_heads(replace(request, source="stream"), tmp_path / "streamed")
    assert same_heads(result.run, stored.run)
    assert not same_heads(result.run, streamed.run)


def _extraction(request: FitRequest, **changes: Any) -> ExtractRequest:  # noqa: ANN401 - any field
    wanted = ExtractRequest(
        task=request.task, data=request.data, windows=request.windows, encoder=request.encoder, device="cpu"
    )
    return replace(wanted, **changes)


class PulledPlugError(Exception):
    """What ends a fit in the middle."""


@pytest.mark.usefixtures("slow_encoder")
@pytest.mark.parametrize("when", ["extracting", "learning"])
def test_a_resumed_fit_keeps_to_its_plan(when: str, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)
    request = ask("squad2", PLAIN, MIX, epochs=5.0)
    whole = fit_heads(request, tmp_path / "whole")
    owner, name = {
        "extracting": (writer_module.StoreWriter, "_write"),
        "learning": (loop_module._Fitting, "learn"),  # noqa: SLF001 - in the midst of it
    }[when]
    right, calls = getattr(owner, name), iter(range(3))

    def pull(*arguments: Any) -> Any:  # noqa: ANN401
        if next(calls, None) is None:
            raise PulledPlugError
        return right(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, pull)
        with pytest.raises(PulledPlugError):
            fit_heads(request, tmp_path / "run")
    assert len(list((tmp_path / "run" / "store" / "train").glob("*.safetensors"))) == (
        3 if when == "extracting" else 10
    )
    before = plan_of(tmp_path / "run")
    forbid_measuring(monkeypatch)
    resumed = fit_heads(request, tmp_path / "run", resume=True)
    assert same_heads(resumed.run, whole.run)
    assert read_lines(resumed.run) == read_lines(whole.run)
    assert not (resumed.run / "store").exists()
    assert plan_of(resumed.run) == before
    assert len(before["candidates"]) == 3


@pytest.mark.usefixtures("slow_encoder")
def test_a_store_that_was_left_in_a_finished_run_is_removed(ask: Ask, tmp_path: Path) -> None:
    request = ask("squad2", PLAIN, epochs=5.0)
    run = fit_heads(request, tmp_path / "run").run
    (run / "store").mkdir()
    fit_heads(request, run, resume=True)
    assert not (run / "store").exists()


@pytest.mark.usefixtures("slow_encoder")
def test_a_fit_that_leaves_no_head_leaves_no_store(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="no head was kept"):
        fit_heads(ask("squad2", replace(MIX, lr=1e30, clip=0.0), epochs=5.0), tmp_path / "run")
    assert plan_of(tmp_path / "run")["chosen"]["kind"] == "store"
    assert not (tmp_path / "run" / "store").exists()


def test_a_plan_that_is_none_is_refused(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ask("squad2", PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(loop_module._Fitting, "learn", lambda *_: next(iter(())))  # noqa: SLF001 - ends it
        with pytest.raises(StopIteration):
            fit_heads(request, tmp_path / "run")
    for content in (
        '{"format": 1}',
        "[]",
        '{"format": 2, "chosen": {}, "reasons": []}',
        '{"format": 1, "chosen": null}',
    ):
        (tmp_path / "run" / "plan.json").write_text(content, encoding="utf-8")
        with pytest.raises(BertVisionError, match=r"plan.json is no plan. Start anew with another --out"):
            fit_heads(request, tmp_path / "run", resume=True)


@pytest.mark.usefixtures("slow_encoder")
def test_a_store_at_the_usual_place_is_read_if_it_fits_and_stays(ask: Ask, tmp_path: Path) -> None:
    request = ask("squad2", PLAIN, MIX, epochs=1.0)
    extract_states(_extraction(request, keep="int8", layers="0..1"), tmp_path / "stores" / "squad2")
    assert plan_fit(request, tmp_path / "run").chosen != Source(  # it lacks a layer
        kind="store", keep="int8", layers="0..1", folder="stores/squad2"
    )
    low = [replace(spec, options={"layers": "0..1"}) for spec in (PLAIN, MIX)]
    before = everything(tmp_path / "stores")
    result = fit_heads(replace(request, heads=tuple(low)), tmp_path / "run")
    assert plan_of(result.run)["chosen"] == {
        "kind": "store",
        "keep": "int8",
        "layers": "0..1",
        "folder": "stores/squad2",
    }
    assert everything(tmp_path / "stores") == before
    stored = fit_heads(replace(request, heads=tuple(low), source="store:stores/squad2"), tmp_path / "stored")
    assert same_heads(result.run, stored.run)


@pytest.mark.usefixtures("slow_encoder")
def test_a_store_of_other_windows_or_an_unfinished_one_is_not_read(ask: Ask, tmp_path: Path) -> None:
    request = ask("squad2", PLAIN, epochs=1.0)
    folder = tmp_path / "stores" / "squad2"
    extract_states(_extraction(request), folder)
    chosen = plan_fit(request, tmp_path / "run").chosen
    assert chosen is not None
    assert chosen.folder == "stores/squad2"
    others = replace(request, windows=replace(request.windows, length=48))
    (folder / "dev" / "manifest.json").unlink()
    for changed in (others, request):
        assert all(one.source.folder is None for one in plan_fit(changed, tmp_path / "run").candidates)


@pytest.mark.usefixtures("slow_encoder")
def test_limits_of_the_request_count(ask: Ask, tmp_path: Path) -> None:
    request = ask("squad2", PLAIN, epochs=5.0)
    needed = plan_fit(request, tmp_path / "run").candidates[1].disk
    less = plan_fit(replace(request, max_disk=needed - 1), tmp_path / "run")
    assert less.chosen == Source(kind="store", keep="int8", layers="2..2")
    assert less.candidates[1].problem is not None
    for epochs in (1.0, 5.0):
        with pytest.raises(BertVisionError, match=r"Use a smaller --batch\. Or go on nevertheless: --from stream\."):
            fit_heads(replace(request, max_memory=1000, epochs=epochs), tmp_path / "run")
    with pytest.raises(BertVisionError, match=r"of memory, and --max-memory allows 1 KB. Use --fraction"):
        fit_heads(ask("sst2", PLAIN, max_memory=1000), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def usage(free: int) -> Any:  # noqa: ANN401 - a tuple with a name
    return lambda _: type("Usage", (), {"free": free})()


@pytest.mark.usefixtures("slow_encoder")
def test_what_the_disk_has_left_is_a_limit(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", usage(1000))
    monkeypatch.setattr(source_module, "STORE_BYTES", 999)
    request = ask("squad2", PLAIN, epochs=5.0)
    plan = plan_fit(request, tmp_path / "run")
    assert plan.chosen == Source(kind="stream")
    assert plan.candidates[1].problem == "the disk has 1 KB left"
    forbid_measuring(monkeypatch)
    [reason] = fit_heads(request, tmp_path / "run").notices[-1:]
    assert re.fullmatch(
        r"States are streamed: even a store of 8 bits would take .*, and the disk has 1 KB left\.", reason
    )


def test_where_nothing_can_be_written_states_are_streamed(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask("squad2", PLAIN, epochs=5.0)
    expected = (f"States are streamed: no store can be tried in {tmp_path}.",)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
        assert plan_fit(request, tmp_path / "run").reasons == expected
    monkeypatch.setattr(shutil, "disk_usage", usage(10**7))
    assert plan_fit(request, tmp_path / "run").reasons == expected


def test_where_a_store_cannot_even_be_tried_nothing_is_written(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask("squad2", PLAIN, epochs=5.0, max_disk=10_000)
    expected = "States are streamed: --max-disk allows 10 KB, which is too little to try a store"
    with monkeypatch.context() as patch:
        patch.setattr(source_module, "measure_spans", lambda *_: pytest.fail("it was tried"))
        plan = plan_fit(request, tmp_path / "run")
        assert (plan.chosen, plan.reasons) == (Source(kind="stream"), (f"{expected}.",))
        extract_states(_extraction(request), tmp_path / "stores" / "squad2")
        stored = f"{expected}; the one in stores/squad2 is read with --from store:stores/squad2."
        assert plan_fit(request, tmp_path / "run").reasons == (stored,)


def test_a_store_made_in_bfloat16_is_no_answer_to_float32(ask: Ask, tmp_path: Path) -> None:
    frozen = freeze_task(ask("squad2", PLAIN, epochs=5.0))

    class OnGpu:
        depth, width, device = 2, 16, type("Device", (), {"type": "cuda"})()

    gpu = replace(frozen, encoder=OnGpu())  # type: ignore[arg-type]  # stands for one on a GPU
    [reason] = plan_source(gpu, range(3), tmp_path, always=True).reasons
    assert reason == "States are streamed: a store on a GPU is made in bfloat16, and float32 is asked for."


def test_the_work_of_spans_is_counted_in_tokens(ask: Ask) -> None:
    frozen = freeze_task(ask("squad2", PLAIN, epochs=2.5, validate=(0.5, 1.0)))
    work = span_work(frozen, range(1, 3))
    tokens = {split: len(frozen.parts.part(examples).windows.ids) for split, examples in frozen.parts.whole.items()}
    held_out = len(frozen.held_out.windows.ids)
    assert work.stored == sum(tokens.values())
    assert work.trained == 2.5 * (tokens["train"] - held_out)
    assert work.scored == 4 * held_out + tokens["dev"]  # at 0.5, 1 and the end, and for the leaderboard
    assert (work.layers, work.whole, work.width) == (range(1, 3), range(3), 16)
    assert work.batch == BATCH_TOKENS["cpu"]
    assert work.shard == pytest.approx(128 * tokens["train"] / 40, rel=0.1)


def test_a_share_of_the_examples_still_needs_a_store_of_all(ask: Ask) -> None:
    whole, half = (
        span_work(freeze_task(ask("squad2", replace(PLAIN, fraction=share))), range(3)) for share in (1.0, 0.5)
    )
    assert half.stored == pytest.approx(whole.stored, rel=0.1)
    assert half.trained == pytest.approx(whole.trained / 2, rel=0.2)


def test_the_work_of_rows_is_counted_in_texts(ask: Ask) -> None:
    frozen = freeze_task(ask("own", PLAIN, epochs=3.0, pairs="apart"))
    work = row_work(frozen, range(2, 3))
    assert (work.rows, work.copied, work.trained) == (52, 32 * 32, 96)  # the last layer of the training examples
    assert work.scored == 8 + 12  # the leaderboard takes what was read at the end
    assert (work.numbers, work.parts) == (32, 2)
    together = row_work(freeze_task(ask("own", PLAIN, epochs=3.0, pairs="together", solve=False)), range(3))
    concat = HeadSpec(head="layer_concat")
    assert row_work(freeze_task(ask("own", PLAIN, MIX, concat, pairs="apart")), range(3)).copied == 3 * work.copied
    assert (together.copied, together.numbers) == (0, 3 * 16)
    assert (work.fraction, work.dev, work.fewer_layers, together.fewer_layers) == (1.0, 12, False, True)
    assert work.tokens - together.tokens == 52  # both texts, and a token more where they stand apart


def test_rows_need_memory_for_the_layers_that_heads_read(ask: Ask, tmp_path: Path) -> None:
    every = row_work(freeze_task(ask("sst2", PLAIN, MIX)), range(3))
    last = HeadSpec(head="last_layer", options={"layers": "0..1"})
    allowed = {"solve": False, "max_memory": every.memory // 2}
    assert len(fit_heads(ask("sst2", PLAIN, **allowed), tmp_path / "one").leaderboard) == 1
    with pytest.raises(BertVisionError, match=r"Use --fraction 0\.\d+; or heads that read fewer layers"):
        fit_heads(ask("sst2", MIX, **allowed), tmp_path / "all")
    plan = plan_fit(ask("sst2", last, **allowed), tmp_path / "low")  # layer 1 alone
    assert plan.candidates[0].memory == every.rows * 16 * 4


def test_rows_of_several_tasks_have_all_layers(ask: Ask) -> None:
    frozen = freeze_task(ask("sst2", PLAIN))
    shared = SharedRows(frozen.encoder, frozen.texts, frozen.passes, frozen.pool)
    work = row_work(replace(frozen, shared=shared), range(2, 3))
    assert (work.numbers, work.fewer_layers) == (3 * 16, False)


def test_solved_heads_are_not_timed(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[list[str]] = []

    def measure(_frozen: object, heads: list[HeadSpec], _layers: range) -> RowRates:
        timed.append([spec.head for spec in heads])
        return RowRates(encode=1.0, heads=1.0, slowest=("", 0.0))

    monkeypatch.setattr(source_module, "measure_rows", measure)
    plan_fit(ask("sst2", PLAIN, MIX), tmp_path / "run")
    plan_fit(ask("sst2", PLAIN, MIX, solve=False), tmp_path / "run")
    assert timed == [["layer_mix"], ["last_layer", "layer_mix"]]


def test_a_plan_measures_even_where_the_choice_is_clear(ask: Ask, tmp_path: Path) -> None:
    plan = plan_fit(ask("squad2", PLAIN), tmp_path / "deep" / "run")
    assert [one.source.kind for one in plan.candidates] == ["stream", *["store"] * 4]
    assert all(one.seconds > 0 for one in plan.candidates)
    assert list(tmp_path.iterdir()) == []


def test_heads_that_a_fit_refuses_are_refused_by_its_plan(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match="'ladder' looks at neighbouring tokens"):
        plan_fit(ask("sst2", HeadSpec(head="ladder")), tmp_path / "run")


@pytest.mark.usefixtures("slow_encoder")
def test_a_half_that_overflows_is_extracted_as_bfloat16(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "measure_spans", lambda *_: rates(half="bf16"))
    result = fit_heads(ask("squad2", PLAIN, epochs=5.0), tmp_path / "run")
    assert plan_of(result.run)["chosen"]["keep"] == "bf16"
