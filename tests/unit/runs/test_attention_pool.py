"""Heads that learn which tokens of a text count, in front of an encoder that runs for every batch."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from bertvision.heads import load_head
from bertvision.inference.computed_states import StreamStates
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.fit_tasks import fit_tasks
from bertvision.runs.fitting.frozen import freeze_task
from bertvision.runs.tuning.tune import tune
from bertvision.runs.validate import Validation
from bertvision.training.model import TunedModel
from bertvision.training.trainee import HeadSpec
from close import FLOAT32
from tiny_run import (
    head_tensors,
    save_tiny_encoder,
    tiny_fit,
    tiny_request,
    write_labels,
    write_pairs,
    write_questions,
    write_scores,
)

MIX = HeadSpec(head="layer_mix", lr=2e-2)
CONCAT = HeadSpec(head="layer_concat", lr=2e-2, fraction=0.5)

Ask = Callable[..., FitRequest]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Makes requests for a task of any kind."""
    root = tmp_path_factory.mktemp("data")
    encoder = save_tiny_encoder(root / "encoder")
    data = {
        "sst2": write_labels(root / "sst2"),
        "squad2": write_questions(root / "squad2"),
        "own": write_scores(root / "own"),
        "pairs": write_pairs(root / "pairs"),
    }

    def make(task: str, *heads: HeadSpec, **changes: Any) -> FitRequest:  # noqa: ANN401 - any field
        name = "own" if task == "pairs" else task
        return tiny_fit(name, data[task], encoder, *(heads or (MIX, CONCAT)), **{"pool": "attention", **changes})

    return make


@pytest.mark.parametrize("task", ["sst2", "own", "pairs"])
def test_the_query_is_learnt_saved_and_used_again(task: str, ask: Ask, tmp_path: Path) -> None:
    request = ask(task, epochs=4)
    result = fit_heads(request, tmp_path / "run")
    queries = [value for name, value in head_tensors(result.run).items() if name.endswith("token_pool.query")]
    assert len(queries) == 2
    assert all(query.abs().max() > 1e-3 for query in queries)
    frozen = freeze_task(request)
    assert isinstance(frozen.states(frozen.train, range(3)), StreamStates)
    validation = Validation(
        task=frozen.task, held_out=frozen.held_out, dev=frozen.dev, pool=frozen.pool, passes=frozen.passes
    )
    for row in result.leaderboard:
        assert row["options"]["tokens"] == "attention"
        assert not row["solved"]
        model = TunedModel(load_encoder(request.encoder), load_head(result.run / row["folder"]), pool=frozen.pool)
        assert validation.score(model)[0] == pytest.approx(row["metrics"], abs=FLOAT32)


def test_it_finds_the_word_that_counts(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", replace(MIX, lr=5e-2), epochs=20)
    learnt = fit_heads(request, tmp_path / "attention").leaderboard[0]["metrics"]["accuracy"]
    assert learnt == 1.0  # one word of six tells the classes apart
    head = load_head(tmp_path / "attention" / "heads" / "000-layer_mix")
    frozen = freeze_task(request)
    assert frozen.dev is not None
    assert head.token_pool is not None
    windows = frozen.dev.windows
    batch = frozen.states(frozen.dev, range(3)).batch(torch.arange(len(windows)).numpy())
    weights = head.token_pool.weights(batch.hidden.states, batch.hidden.mask)
    assert weights[:, :, -2].mean() > 1.5 / windows.lengths[0]  # the last word before [SEP]: 'good' or 'bad'


def test_a_head_is_the_same_alone_and_among_others(ask: Ask, tmp_path: Path) -> None:
    together = head_tensors(fit_heads(ask("sst2", MIX, replace(MIX, seed=3)), tmp_path / "together").run)
    alone = head_tensors(fit_heads(ask("sst2", MIX), tmp_path / "alone").run)
    assert all(torch.equal(value, together[name]) for name, value in alone.items())


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("squad2", {}, "--pool attention is for labels, tags and scores; squad2 needs every token's row"),
        ("pairs", {"pairs": "apart"}, r"reads the two texts of a pair together\. Use --pairs together"),
        ("sst2", {"source": "store:x"}, r"needs every token, and a store of texts keeps one\. Use --from stream"),
        ("sst2", {"heads": (HeadSpec(head="ladder"),)}, "'ladder' looks at neighbouring tokens"),
        (
            "sst2",
            {"pool": "cls", "heads": (replace(MIX, options={"tokens": "attention"}),)},
            "tokens=attention is for all heads of a fit: --pool attention",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    task: str, changes: dict[str, Any], message: str, ask: Ask, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        fit_heads(replace(ask(task), **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_it_shares_no_pass_with_other_tasks(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(
        BertVisionError, match=r"sst2: --pool attention, so heads read every token, .* Fit it by itself"
    ):
        fit_tasks([ask("sst2"), ask("own")], tmp_path / "out")


def test_a_tuned_head_may_learn_it_with_the_encoder(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2")
    options: dict[str, Any] = {"head_options": {"tokens": "attention"}, "held_out": 0.2}
    asked = tiny_request("sst2", request.data or "", request.encoder, **options)
    tune(asked, tmp_path / "run")
    head = load_head(tmp_path / "run" / "snapshots" / "1")
    assert head.token_pool is not None
    assert head.token_pool.query.abs().max() > 1e-4
    with pytest.raises(BertVisionError, match="tokens=attention makes one row of a text; squad2 needs one for every"):
        tune(replace(asked, task="squad2", data=ask("squad2").data), tmp_path / "spans")
