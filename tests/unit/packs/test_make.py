"""A run becomes a pack: the chain of its changes, the way its heads read, and what cannot be packed."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.errors import BertVisionError
from bertvision.packs.make import make_pack
from bertvision.packs.text_models import TextClassifier
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.judging.evaluate import evaluate
from bertvision.runs.judging.kept_outputs import load_outputs
from bertvision.runs.judging.subject import Subject, load_subject
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.load import load_task
from bertvision.training.trainee import HeadSpec
from close import FLOAT32
from tiny_run import save_tiny_encoder, tiny_fit, tiny_request, write_labels, write_pairs, write_questions


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run tuned in two steps, and heads on it."""
    folder = tmp_path_factory.mktemp("runs")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_labels(folder / "labels")
    tune(tiny_request("sst2", data, encoder, learn="lora:2"), folder / "first")
    tune(tiny_request("sst2", data, str(folder / "first"), learn="layernorm", held_out=0.2), folder / "second")
    heads = HeadSpec(head="layer_mix"), HeadSpec(head="pooled_conv")
    fit_heads(tiny_fit("sst2", data, str(folder / "second"), *heads), folder / "fit")
    return folder


def test_every_tuning_that_led_to_an_encoder_is_packed(place: Path, tmp_path: Path) -> None:
    pack = make_pack(place / "second", out=tmp_path / "pack", keep="float32", device="cpu").pack
    assert pack.card.learn == ("lora:2", "layernorm")
    assert pack.card.encoder == str(place / "encoder")
    assert pack.card.fingerprint == fingerprint(load_encoder(str(place / "encoder")))
    assert fingerprint(pack.load_encoder(device="cpu")) == fingerprint(load_encoder(str(place / "second")))


@pytest.mark.parametrize("head", ["000-layer_mix", "001-pooled_conv", "own_output"])
def test_a_pack_gives_the_outputs_that_were_evaluated(place: Path, tmp_path: Path, head: str) -> None:
    pack = make_pack(place / "fit", heads=head, out=tmp_path / "pack", keep="float32", device="cpu").pack
    assert pack.card.reads == ("tokens" if head == "own_output" else "rows")
    texts = load_task("sst2", data=str(place / "labels")).splits["dev"].texts  # type: ignore[union-attr]
    kept = load_outputs(evaluate(place / "fit", device="cpu").folder / head).split
    assert isinstance(kept, np.ndarray)
    assert np.allclose(TextClassifier(pack, device="cpu").rows(texts), kept, rtol=FLOAT32, atol=FLOAT32)


def test_the_best_head_may_stand_among_others_and_no_head_is_refused(place: Path, tmp_path: Path) -> None:
    first = evaluate(place / "fit", device="cpu").record.rows[0].name
    for heads in (["best", first], f"{first}, best", "best"):
        assert make_pack(place / "fit", heads=heads, out=tmp_path / "pack", device="cpu").pack.card.heads == (first,)
    for nothing in ("", ()):
        with pytest.raises(BertVisionError, match=r"unknown head ''\. Known: "):
            make_pack(place / "fit", heads=nothing, out=tmp_path / "none", device="cpu")


@pytest.mark.parametrize("way", ["apart", "aligned"])
def test_pairs_are_packed_as_they_were_encoded(way: str, place: Path, tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs")
    request = tiny_fit("own", data, str(place / "encoder"), HeadSpec(head="layer_mix"), pairs=way, pool="mean")
    fit_heads(request, tmp_path / "fit")
    pack = make_pack(tmp_path / "fit", out=tmp_path / "pack", keep="float32", device="cpu").pack
    assert (pack.card.pairs, pack.card.pool, pack.card.task.labels) == (way, "mean", ("other", "same"))
    dev = load_task("own", data=data).splits["dev"]
    pairs = list(zip(dev.texts, dev.pairs, strict=True))  # type: ignore[union-attr, arg-type]
    kept = load_outputs(evaluate(tmp_path / "fit", device="cpu").folder / "000-layer_mix").split
    assert isinstance(kept, np.ndarray)
    assert np.allclose(TextClassifier(pack, device="cpu").rows(pairs), kept, rtol=FLOAT32, atol=FLOAT32)


def test_an_own_output_that_reads_other_rows_is_not_mixed_with_heads(place: Path, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"own_output is given other rows .* Pack it alone"):
        make_pack(place / "fit", heads="layer_mix,own_output", out=tmp_path / "pack", device="cpu")


@pytest.mark.parametrize(
    ("heads", "pool"), [("own_output,last_layer", "cls"), ("last_layer,own_output", "mean")], ids=["own", "head"]
)
def test_the_card_of_heads_for_questions_names_the_pooling_of_the_first(
    place: Path, tmp_path: Path, heads: str, pool: str
) -> None:
    data = write_questions(tmp_path / "data", train=40)
    tune(tiny_request("squad2", data, str(place / "encoder"), held_out=0.2, learn="none"), tmp_path / "run")
    fit_heads(
        tiny_fit("squad2", data, str(tmp_path / "run"), HeadSpec(head="last_layer"), pool="mean"), tmp_path / "fit"
    )
    card = make_pack(tmp_path / "fit", heads=heads, out=tmp_path / "pack", device="cpu").pack.card
    assert (card.reads, card.pool, card.pairs) == ("tokens", pool, "together")


def test_a_head_that_needs_the_pooled_vector_is_refused(place: Path, tmp_path: Path) -> None:
    request = tiny_request("sst2", str(place / "labels"), str(place / "encoder"), pooled=True, head="layer_mix")
    tune(request, tmp_path / "run")
    with pytest.raises(BertVisionError, match=r"was tuned with --pooled.*Fit heads on it"):
        make_pack(tmp_path / "run", out=tmp_path / "pack", device="cpu")


def test_without_held_out_questions_the_threshold_is_zero_and_it_is_said(place: Path, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data", train=10)
    tune(tiny_request("squad2", data, str(place / "encoder"), held_out=0.0, learn="none"), tmp_path / "run")
    result = make_pack(tmp_path / "run", out=tmp_path / "pack", device="cpu")
    assert result.pack.card.threshold == 0.0
    assert result.pack.card.learn == ()
    assert any("held nothing out, so the no-answer threshold is 0" in notice for notice in result.notices)


@pytest.mark.parametrize(("train", "said"), [(40, True), (120, False)])
def test_with_few_held_out_questions_of_a_kind_it_is_said_that_no_threshold_was_fitted(
    place: Path, tmp_path: Path, train: int, *, said: bool
) -> None:
    data = write_questions(tmp_path / "data", train=train)
    tune(tiny_request("squad2", data, str(place / "encoder"), held_out=0.5, learn="none"), tmp_path / "run")
    result = make_pack(tmp_path / "run", out=tmp_path / "pack", device="cpu")
    assert (result.pack.card.threshold == 0.0) is said
    about = [notice for notice in result.notices if "the no-answer threshold is 0" in notice]
    assert len(about) == said
    if said:
        held_out = re.search(r"the run held out (\d+) and (\d+)\.", about[0])
        assert held_out is not None
        assert sum(map(int, held_out.groups())) == 20
        assert "20 held-out questions with an answer and 20 without are needed" in about[0]


def test_a_tuned_pack_is_packed_with_what_it_came_from(place: Path, tmp_path: Path) -> None:
    first = make_pack(place / "second", out=tmp_path / "first", licence="cc-by-4.0", device="cpu").pack
    tune(
        tiny_request("sst2", str(place / "labels"), str(first.folder), learn="top:1:strict", held_out=0.2),
        tmp_path / "run",
    )
    pack = make_pack(tmp_path / "run", out=tmp_path / "pack", keep="float32", device="cpu").pack
    assert pack.card.learn == ("lora:2", "layernorm", "top:1:strict")
    assert (pack.card.encoder, pack.card.fingerprint) == (first.card.encoder, first.card.fingerprint)
    assert fingerprint(pack.load_encoder(device="cpu")) == fingerprint(load_encoder(str(tmp_path / "run")))
    assert pack.card.licence == "other"


def test_a_pack_over_a_pack_keeps_its_licence_where_nothing_else_is_known(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_pack(place / "second", out=tmp_path / "first", licence="cc-by-4.0", device="cpu").pack
    request = tiny_fit("sst2", str(place / "labels"), str(first.folder), HeadSpec(head="last_layer"))
    fit_heads(request, tmp_path / "fit")

    def load_builtin(*args: Any, **options: Any) -> Subject:  # noqa: ANN401 - as load_subject takes them
        return replace(load_subject(*args, **options), data="builtin")

    monkeypatch.setattr("bertvision.packs.make.load_subject", load_builtin)
    assert make_pack(tmp_path / "fit", out=tmp_path / "pack", device="cpu").pack.card.licence == "cc-by-4.0"
    assert make_pack(place / "fit", out=tmp_path / "plain", device="cpu").pack.card.licence == "mit"
