"""Packs over one encoder, labels and scores: one pass gives what each pack gives alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.encoder.encoder import Encoder
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import SpanScores
from bertvision.packs.inputs import make_texts, text_windows
from bertvision.packs.models import PackModels
from bertvision.packs.multi_task import MultiTask
from bertvision.packs.pack import Pack, write_pack
from bertvision.packs.question_answerer import QuestionAnswerer
from bertvision.packs.reader import PackQuery
from bertvision.packs.target import Target
from bertvision.packs.text_models import TextClassifier, TextScorer
from bertvision.tasks.load import TASKS
from close import FLOAT32
from tiny_pack import TAGS, make_pack
from tiny_run import save_tiny_encoder

TEXTS = ["a good a", "bad b c d e f", "gold"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs")
    save_tiny_encoder(folder / "encoder")
    return folder


@pytest.fixture(scope="module")
def packs(place: Path) -> dict[str, Pack]:
    encoder = str(place / "encoder")
    return {
        "squad2": make_pack(place / "qa", encoder, TASKS["squad2"], threshold=1e9, heads=["layer_mix"]),
        "sst2": make_pack(place / "mood", encoder, TASKS["sst2"], seed=1),
        "sts": make_pack(place / "alike", encoder, TASKS["sts"], pairs="apart", seed=2),
        "stsb": make_pack(place / "aligned", encoder, TASKS["stsb"], pairs="aligned", seed=6),
        "moods": make_pack(place / "tags", encoder, TAGS, reads="tokens", seed=3),
        "answerable": make_pack(place / "answerable", encoder, TASKS["answerable"], seed=4),
    }


def count_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Windows of every batch that an encoder computes from now on."""
    seen: list[int] = []
    forward = Encoder.forward

    def counted(self: Encoder, batch: Any, **options: Any) -> Any:  # noqa: ANN401 - handed on
        seen.append(len(batch.ids))
        return forward(self, batch, **options)

    monkeypatch.setattr(Encoder, "forward", counted)
    return seen


@pytest.mark.parametrize("step", [1, -1])
def test_one_pass_gives_what_every_pack_gives_alone(packs: dict[str, Pack], step: int) -> None:
    together = MultiTask(list(packs.values())[::step], device="cpu")
    assert together.names == tuple(packs)[::step]
    pairs = ["b", "good", "a c"]
    got = together(TEXTS, question="where is it ?", pair=pairs)
    asked = QuestionAnswerer(packs["squad2"], device="cpu")(question=["where is it ?"] * 3, context=TEXTS)
    labels = TextClassifier(packs["sst2"], device="cpu")(TEXTS)
    scores, aligned = (
        TextScorer(packs[name], device="cpu")(list(zip(TEXTS, pairs, strict=True))) for name in ("sts", "stsb")
    )
    answerable = TextClassifier(packs["answerable"], device="cpu")([("where is it ?", text) for text in TEXTS])
    tags = TextClassifier(packs["moods"], device="cpu")(TEXTS, top_k=None)
    for row, one in enumerate(got):
        assert one["squad2"]["answer"] == asked[row]["answer"]
        assert [one[name]["label"] for name in ("sst2", "answerable")] == [
            labels[row]["label"],
            answerable[row]["label"],
        ]
        mine = [one[name]["score"] for name in ("squad2", "sst2", "sts", "stsb", "answerable")]
        alone = [found[row]["score"] for found in (asked, labels, scores, aligned, answerable)]
        assert np.allclose(mine, alone, rtol=FLOAT32)
        assert [tag["label"] for tag in one["moods"]] == [tag["label"] for tag in tags[row] if tag["score"] > 0.5]
    single = together(TEXTS[0], question="where is it ?", pair=pairs[0])
    assert single["sst2"]["label"] == got[0]["sst2"]["label"]


def test_answers_may_be_as_long_as_those_that_the_threshold_was_fitted_with(
    packs: dict[str, Pack], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join("abcdefgh"[number % 8] for number in range(40))

    def read(_self: PackModels, queries: Sequence[PackQuery]) -> list[SpanScores]:
        """Scores of which the answer has 21 tokens."""
        windows = queries[0].windows[0]
        start, end = (np.zeros(len(windows.ids), dtype=np.float32) for _ in range(2))
        begin = int(windows.context[0, 0])
        start[begin], end[begin + 20] = 9.0, 9.0
        return [SpanScores(start, end)]

    monkeypatch.setattr(PackModels, "read", read)
    said = MultiTask([packs["squad2"]], device="cpu")(text, question="where is it ?")["squad2"]
    assert said["answer"] == text[: 2 * 21 - 1]


def test_a_text_is_encoded_once_for_all_packs(packs: dict[str, Pack], monkeypatch: pytest.MonkeyPatch) -> None:
    several = MultiTask([packs["sst2"], packs["moods"], packs["sst2"]], device="cpu")
    assert several.names == ("sst2", "moods", "sst2-2")
    seen = count_passes(monkeypatch)
    got = several(TEXTS)
    assert seen == [3]
    assert got[0]["sst2"] == got[0]["sst2-2"]
    both = MultiTask([packs["squad2"], packs["answerable"], packs["sst2"]], device="cpu")
    seen.clear()
    both(TEXTS, question="where ?")
    assert sum(seen) == 6


def test_pairs_are_aligned_once_for_all_packs(packs: dict[str, Pack], monkeypatch: pytest.MonkeyPatch) -> None:
    several = MultiTask([packs["stsb"], packs["stsb"]], device="cpu")
    seen = count_passes(monkeypatch)
    got = several(TEXTS, pair=["b", "good", "a c"])
    assert sum(seen) == 6
    assert got[0]["stsb"] == got[0]["stsb-2"]


def test_asks_of_one_pack_are_read_each_by_itself(packs: dict[str, Pack]) -> None:
    models = PackModels([packs["sts"], packs["stsb"]], device="cpu")
    some = [("a good a", "b c"), ("bad", "a bad d"), ("gold", "gold")]
    for pack, card in enumerate(models.cards):
        cut = [text_windows(card, make_texts(card, pairs), models.tokenizer) for pairs in (some[:2], some[2:], some)]
        first, second, both = models.read([PackQuery(pack, windows) for windows in cut])
        assert isinstance(both, np.ndarray)
        assert np.allclose(np.concatenate([first, second]), both, rtol=FLOAT32, atol=FLOAT32)


def test_layers_of_aligned_texts_add_up_to_the_score(packs: dict[str, Pack]) -> None:
    models = PackModels([packs["stsb"]], device="cpu")
    card, (head,) = models.cards[0], models.heads[0]
    query = PackQuery(
        0, text_windows(card, make_texts(card, [("a good a", "b c"), ("bad", "a bad d")]), models.tokenizer)
    )
    (outputs,) = models.read([query])
    assert isinstance(outputs, np.ndarray)
    (found,) = models.contributions(query, [Target(1, ((0, 0),))])
    assert found[-1] + head.project.bias.item() == pytest.approx(outputs[1, 0], rel=FLOAT32)
    assert not found[:-1].any()


def test_packs_over_different_encoders_are_refused(packs: dict[str, Pack], tmp_path: Path) -> None:
    other = make_pack(tmp_path / "pack", save_tiny_encoder(tmp_path / "other", seed=1), TASKS["sst2"])
    with pytest.raises(BertVisionError, match=r"lie over different encoders.*Fit their heads on the same encoder"):
        MultiTask([packs["squad2"], other])
    with pytest.raises(BertVisionError, match="at least one is expected"):
        PackModels([])


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (["squad2"], {}, "squad2 needs a question"),
        (["sts"], {}, "sts reads pairs and needs a second text"),
        (["sts"], {"pair": ["a"]}, "3 texts and 1 second texts"),
    ],
)
def test_what_a_pack_needs_is_said(
    packs: dict[str, Pack], names: Sequence[str], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(BertVisionError, match=message):
        MultiTask([packs[name] for name in names], device="cpu")(TEXTS, **given)


def test_no_texts_give_nothing(packs: dict[str, Pack]) -> None:
    assert MultiTask([packs["sst2"]], device="cpu")([]) == []
    assert TextClassifier(packs["sst2"], device="cpu")([]) == []


def test_labels_come_in_the_forms_of_the_pipeline(packs: dict[str, Pack]) -> None:
    label = TextClassifier(packs["sst2"], device="cpu")
    (best,) = label("a good a")
    assert set(best) == {"label", "score"}
    assert label({"text": "a good a"}) == best
    assert label(["a good a", "bad"])[0]["label"] == best["label"]
    ranked = label("a good a", top_k=None)
    assert ranked[0] == best
    assert sum(one["score"] for one in ranked) == pytest.approx(1.0)
    assert label("a good a", top_k=1) == [best]
    assert [len(one) for one in label(["a", "b"], top_k=2)] == [2, 2]
    raw = label("a good a", top_k=None, function_to_apply="none")
    assert np.log(ranked[0]["score"] / ranked[1]["score"]) == pytest.approx(raw[0]["score"] - raw[1]["score"], rel=1e-4)
    sigmoid = label("a good a", top_k=None, function_to_apply="sigmoid")
    assert [one["score"] for one in sigmoid] == pytest.approx([1 / (1 + np.exp(-one["score"])) for one in raw])


def test_scores_come_in_the_forms_of_the_pipeline(packs: dict[str, Pack]) -> None:
    score = TextScorer(packs["sts"], device="cpu")
    pair = {"text": "a", "text_pair": "b"}
    assert score([pair]) == [score(pair)]
    assert score(pair)["label"] == "score"
    assert isinstance(score(pair)["score"], float)


def test_several_heads_count_by_the_mean_of_their_log_probabilities(place: Path) -> None:
    encoder = str(place / "encoder")
    task = TASKS["sst2"]
    both = make_pack(place / "both", encoder, task, heads=["last_layer", "layer_mix"], seed=5)
    rows = TextClassifier(both, device="cpu").rows(TEXTS)
    folder = place / "apart"
    alone = []
    for name, head in zip(both.card.heads, both.load_heads(), strict=True):
        card = replace(both.card, heads=(name,))
        single = write_pack(folder / name, card, changes=[], heads={name: head}, keep="float32")
        outputs = torch.from_numpy(TextClassifier(single, device="cpu").rows(TEXTS))
        alone.append(torch.log_softmax(outputs, dim=1))
    assert np.allclose(rows, torch.stack(alone).mean(dim=0).numpy(), rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [(TextClassifier, "sts", "has scores. Use TextScorer"), (TextScorer, "squad2", "has spans. Use QuestionAnswerer")],
)
def test_a_pack_of_another_kind_names_the_class_to_use(
    packs: dict[str, Pack], kind: type[TextClassifier], name: str, message: str
) -> None:
    with pytest.raises(BertVisionError, match=message):
        kind(packs[name])


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("sst2", {"text": "a", "text_pair": "b"}, "reads single texts, got a pair"),
        ("sts", "a", "reads pairs of texts, got one text"),
        ("sst2", 3, "a text, .* are expected, got 3"),
        ("sst2", "a\ud800", "half of a surrogate pair"),
    ],
)
def test_texts_that_do_not_fit_are_refused(
    packs: dict[str, Pack],
    name: str,
    given: Any,  # noqa: ANN401 - wrong on purpose
    message: str,
) -> None:
    with pytest.raises(BertVisionError, match=message):
        make_texts(packs[name].card, [given])


def test_settings_of_the_pipeline_are_checked(packs: dict[str, Pack]) -> None:
    label = TextClassifier.from_pretrained(packs["sst2"].folder, device="cpu")
    with pytest.raises(BertVisionError, match="top_k is 0"):
        label("a", top_k=0)
    with pytest.raises(BertVisionError, match="function_to_apply is 'tanh'"):
        label("a", function_to_apply="tanh")  # type: ignore[arg-type]
