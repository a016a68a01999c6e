"""Jobs of many clients in one pass get what packs say to each alone; layers are told apart."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.encoder.encoder import Encoder
from bertvision.errors import BertVisionError
from bertvision.packs.export import export_pack
from bertvision.packs.pack import Pack
from bertvision.packs.question_answerer import QuestionAnswerer
from bertvision.packs.text_models import TextClassifier, TextScorer
from bertvision.server.jobs import Job
from bertvision.server.service import PackService
from close import FLOAT32
from tiny_run import SPECIAL, WORDS
from tiny_server import CONTEXT, QUESTION, make_packs

LONG = "a b c gold d e f g " * 30


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pack]:
    return make_packs(tmp_path_factory.mktemp("packs"))


@pytest.fixture(scope="module")
def service(packs: dict[str, Pack]) -> PackService:
    return PackService(list(packs.values()), device="cpu")


def job(service: PackService, name: str, text: str, pair: str | None = None, *, layers: bool = False) -> Job:
    return Job(pack=service.names.index(name), text=text, pair=pair, layers=layers)


def test_packs_are_named_by_their_tasks(service: PackService) -> None:
    assert service.names == ("squad2", "sst2", "sts", "moods", "answerable", "squad2-2", "sst2-2")
    assert service.heads(0) == ["layer_mix", "last_layer"]


def test_mixed_jobs_get_what_each_gets_alone_from_one_pass_per_encoder(
    service: PackService, packs: dict[str, Pack], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [
        job(service, "squad2", QUESTION, CONTEXT),
        job(service, "sst2", "a good a"),
        job(service, "squad2", QUESTION, LONG),
        job(service, "sts", "a good", "b"),
        job(service, "moods", "bad"),
        job(service, "answerable", QUESTION, LONG),
        job(service, "sst2", "bad b c"),
        job(service, "sst2-2", "bad b c"),
    ]
    before, seen = service.passes, list[int]()
    forward = Encoder.forward

    def counted(self: Encoder, batch: Any, **options: Any) -> Any:  # noqa: ANN401 - handed on
        seen.append(len(batch.ids))
        return forward(self, batch, **options)

    monkeypatch.setattr(Encoder, "forward", counted)
    got = service.run(jobs)
    assert service.passes - before == 2
    assert len(seen) <= 3  # batches of like length
    answers = QuestionAnswerer(packs["squad2"], device="cpu").answers
    for row, text in ((0, CONTEXT), (2, LONG)):
        ((best, *_),) = answers([(QUESTION, text)], best=5, limit=30).spans
        assert (got[row]["start"], got[row]["end"]) == (best.start, best.end)
        assert got[row]["answer"] == text[best.start : best.end]
        assert got[row]["score"] == pytest.approx(best.score, rel=1e-4)
    for row, name, text in ((1, "sst2", "a good a"), (6, "sst2", "bad b c"), (7, "other", "bad b c")):
        labels = TextClassifier(packs[name], device="cpu")(text, top_k=None)
        assert [one["label"] for one in got[row]["labels"]] == [one["label"] for one in labels]
        assert got[row]["chosen"] == [labels[0]["label"]]
        assert got[row]["labels"][0]["score"] == pytest.approx(labels[0]["score"], rel=1e-4)
    assert got[3]["score"] == pytest.approx(
        TextScorer(packs["sts"], device="cpu")([("a good", "b")])[0]["score"], rel=1e-4
    )
    tags = TextClassifier(packs["moods"], device="cpu")("bad", top_k=None)
    assert got[4]["chosen"] == [one["label"] for one in tags if one["score"] > 0.5]


def test_every_head_of_a_pack_is_heard(service: PackService, packs: dict[str, Pack], tmp_path: Path) -> None:
    (reply,) = service.run([job(service, "squad2", QUESTION, CONTEXT)])
    assert [head["head"] for head in reply["heads"]] == ["layer_mix", "last_layer"]
    pack = packs["squad2"]
    pack.save_pretrained(tmp_path / "one")
    card = (tmp_path / "one" / "pack.json").read_text(encoding="utf-8")
    both = '"000-layer_mix",\n    "001-last_layer"'
    assert both in card
    (tmp_path / "one" / "pack.json").write_text(card.replace(both, '"001-last_layer"'), encoding="utf-8")
    alone = QuestionAnswerer(Pack.load(tmp_path / "one"), device="cpu").answers([(QUESTION, CONTEXT)], best=1, limit=30)
    head = reply["heads"][1]
    assert (head["start"], head["end"]) == alone.spans[0][0][:2]
    assert head["score"] == pytest.approx(alone.spans[0][0].score, rel=1e-4)


def test_silence_comes_first_with_the_likeliest_behind_it(service: PackService) -> None:
    asked = job(service, "squad2-2", QUESTION, CONTEXT)
    (reply,) = service.run([Job(pack=asked.pack, text=QUESTION, pair=CONTEXT, top=3)])
    assert (reply["answer"], reply["start"], reply["end"]) == (None, None, None)
    assert reply["score"] == reply["no_answer"]
    assert len(reply["alternatives"]) == 2
    assert all(one["answer"] == CONTEXT[one["start"] : one["end"]] for one in reply["alternatives"])


@pytest.mark.parametrize("text", ["\u200b", "\x00", "!", "\U0001f600 gold", "a" * 3000])
def test_odd_texts_are_answered_with_numbers(service: PackService, text: str) -> None:
    replies = service.run(
        [job(service, "squad2", text, text), job(service, "sst2", text), job(service, "sts", text, text)]
    )
    assert np.isfinite(
        [replies[0]["score"], replies[0]["no_answer"], replies[1]["labels"][0]["score"], replies[2]["score"]]
    ).all()
    (layers,) = service.run([job(service, "squad2", text, text, layers=True)])
    assert np.isfinite([one["share"] for one in layers["heads"][0]["layers"]]).all()


def test_contributions_of_a_linear_head_and_its_bias_are_its_output(
    service: PackService, packs: dict[str, Pack]
) -> None:
    (reply,) = service.run([job(service, "sst2", "a good a", layers=True)])
    (head,) = packs["sst2"].load_heads()
    bias = head.project.bias.tolist()
    outputs = TextClassifier(packs["sst2"], device="cpu").rows(["a good a"])[0]
    best = int(outputs.argmax())
    layers = reply["heads"][0]["layers"]
    assert [layer["layer"] for layer in layers] == [0, 1, 2]
    assert [layer["contribution"] for layer in layers[:2]] == [0.0, 0.0]  # it reads the last layer alone
    assert layers[2]["contribution"] + bias[best] == pytest.approx(float(outputs[best]), rel=FLOAT32)
    assert reply["heads"][0]["explains"] == packs["sst2"].card.task.labels[best]


def test_layers_of_an_answer_add_up_to_the_scores_of_its_tokens(service: PackService, packs: dict[str, Pack]) -> None:
    """Layer weights by hand: γ Σ wₗ (q · hₗ) of the first token as a start, and of the last as an end."""
    (reply,) = service.run([job(service, "squad2", QUESTION, CONTEXT, layers=True)])
    mix = packs["squad2"].load_heads()[0]
    encoder = packs["squad2"].load_encoder(device="cpu")
    said = reply["heads"][0]
    words = ["[CLS]", *QUESTION.split(), "[SEP]", *CONTEXT.split(), "[SEP]"]
    ids = [(SPECIAL + WORDS).index(word) for word in words]
    types = [0] * (words.index("[SEP]") + 1)
    types += [1] * (len(words) - len(types))
    with torch.no_grad():
        hidden = encoder.model(
            input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types]), output_hidden_states=True
        ).hidden_states
        states = torch.stack(hidden, dim=1)  # (1, layers, tokens, width)
        outputs = mix(states, torch.ones(1, len(ids), dtype=torch.bool))[0]
    first = len(types) - types[::-1].count(1)
    answer = said["explains"].split()
    context = CONTEXT.split()
    begin = next(at for at in range(len(context)) if context[at : at + len(answer)] == answer)
    expected = outputs[first + begin, 0] + outputs[first + begin + len(answer) - 1, 1] - mix.project.bias.detach().sum()
    assert sum(layer["contribution"] for layer in said["layers"]) == pytest.approx(float(expected), rel=1e-4)
    assert sum(layer["share"] for layer in said["layers"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "text", "pair", "explains"),
    [
        ("squad2-2", QUESTION, CONTEXT, None),
        ("squad2-2", QUESTION, LONG, None),
        ("squad2", QUESTION, LONG, "text"),
        ("answerable", QUESTION, LONG, "label"),
        ("moods", "bad", None, "label"),
        ("sts", "a", "b", "score"),
    ],
)
def test_layers_are_told_of_every_kind_of_pack(
    service: PackService, name: str, text: str, pair: str | None, explains: str | None
) -> None:
    (reply,) = service.run([job(service, name, text, pair, layers=True)])
    said = reply["heads"][0]["explains"]
    card = service.cards[service.names.index(name)]
    match explains:
        case "text":
            assert said in LONG
        case "label":
            assert said in card.task.labels
        case _:
            assert said == explains
    assert sum(layer["share"] for layer in reply["heads"][0]["layers"]) == pytest.approx(1.0)


def test_what_a_pack_cannot_read_is_refused_before_it_is_mixed(service: PackService) -> None:
    for bad, message in [
        (job(service, "squad2", " ", "a"), "the question is empty"),
        (job(service, "squad2", "a", None), "the context is empty"),
        (job(service, "answerable", "", "a"), "the question is empty"),
        (job(service, "sst2", "a", "b"), "reads single texts, got a pair"),
        (job(service, "sts", "a"), "reads pairs of texts, got one text"),
        (job(service, "sst2", "\ud800"), "half of a surrogate pair"),
    ]:
        with pytest.raises(BertVisionError, match=message):
            service.check(bad)
    with pytest.raises(BertVisionError, match="at least one is expected"):
        PackService([])


def test_an_exported_pack_is_served_beside_others_and_says_the_same(packs: dict[str, Pack], tmp_path: Path) -> None:
    exported = replace(export_pack(packs["squad2"], tmp_path / "exported", examples=2), runtime="onnx")
    both = PackService([packs["squad2"], exported], device="cpu")
    before = both.passes
    first, second = both.run([job(both, name, QUESTION, LONG) for name in ("squad2", "squad2-2")])
    assert both.passes - before == 2
    assert (second["answer"], second["start"]) == (first["answer"], first["start"])
    assert second["score"] == pytest.approx(first["score"], rel=1e2 * FLOAT32)
    asked = job(both, "squad2-2", QUESTION, CONTEXT, layers=True)
    with pytest.raises(BertVisionError, match=r"squad2-2 was exported.*Serve the pack that it was made of"):
        both.check(asked)
