"""Outputs of fine-tuned checkpoints, taken over as heads, against the checkpoints themselves."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

from bertvision.encoder import load_encoder
from bertvision.encoder.batch import TokenBatch
from bertvision.encoder.own_output import own_output
from bertvision.errors import BertVisionError
from bertvision.heads import Head, HeadShape, build_head
from bertvision.tasks.task import TaskKind
from close import EXACT, FLOAT32
from fake_hub import keep_in_hub_cache
from tiny_models import save_tiny

IDS = torch.tensor([[3, 10, 11, 12, 13, 14, 15, 4]])
BATCH = TokenBatch(IDS, torch.zeros_like(IDS), torch.ones_like(IDS, dtype=torch.bool), None, 8)
KINDS = ["bert", "albert", "roberta", "mpnet", "electra", "deberta-v2", "distilbert"]


def taken_over(folder: str, kind: str, outputs: int) -> tuple[torch.Tensor, Head]:
    encoder = load_encoder(folder)
    own = own_output(folder, "spans" if kind == "spans" else "labels", outputs)
    assert own is not None
    head = build_head(own.head, HeadShape(layers=encoder.depth + 1, width=encoder.width, outputs=outputs), own.options)
    head.load_state_dict(own.weights)
    with torch.no_grad():
        hidden = encoder(BATCH)
        return head.eval()(hidden.states, hidden.mask), head


@pytest.mark.parametrize("kind", KINDS)
def test_a_classification_checkpoint_gives_the_scores_it_always_gave(kind: str, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, kind, auto=AutoModelForSequenceClassification)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows, _ = taken_over(folder, "labels", 2)
    with torch.no_grad():
        expected = model(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits
    torch.testing.assert_close(rows[:, 0], expected, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_answering_checkpoint_gives_the_scores_it_always_gave(kind: str, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, kind, auto=AutoModelForQuestionAnswering)
    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    rows, _ = taken_over(folder, "spans", 2)
    with torch.no_grad():
        output = model(input_ids=IDS, attention_mask=torch.ones_like(IDS))
    expected = torch.stack([output.start_logits, output.end_logits], dim=-1)
    torch.testing.assert_close(rows, expected, rtol=FLOAT32, atol=FLOAT32)


def test_a_checkpoint_of_another_kind_or_size_has_no_output_for_the_task(tmp_path: Path) -> None:
    plain = save_tiny(tmp_path / "plain")
    labels = save_tiny(tmp_path / "labels", auto=AutoModelForSequenceClassification)
    assert own_output(plain, "spans", 2) is None
    assert own_output(plain, "labels", 2) is None
    assert own_output(labels, "spans", 2) is None
    assert own_output(labels, "labels", 5) is None


@pytest.mark.parametrize("kind", ["spans", "labels"])
def test_a_checkpoint_of_the_hub_has_the_output_of_the_same_files_in_a_folder(
    kind: TaskKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto = AutoModelForQuestionAnswering if kind == "spans" else AutoModelForSequenceClassification
    folder = save_tiny(tmp_path / "encoder", auto=auto)
    keep_in_hub_cache(tmp_path / "encoder", "some/encoder", tmp_path / "hub", monkeypatch)
    expected, got = own_output(folder, kind, 2), own_output("some/encoder", kind, 2)
    assert expected is not None
    assert got is not None
    assert (got.head, got.options) == (expected.head, expected.options)
    torch.testing.assert_close(got.weights, expected.weights, rtol=EXACT, atol=EXACT)
    assert own_output("some/other", kind, 2) is None


def test_an_architecture_whose_classifier_is_of_another_form_has_none(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "modernbert", auto=AutoModelForSequenceClassification)
    assert own_output(folder, "labels", 2) is None


@pytest.mark.parametrize(
    ("file", "kind", "message"),
    [("model.safetensors", "spans", "cannot be read"), ("config.json", "labels", r"config\.json:1: not JSON")],
)
def test_damaged_files_are_refused(file: str, kind: TaskKind, message: str, tmp_path: Path) -> None:
    folder = Path(save_tiny(tmp_path))
    (folder / file).write_bytes(b"damaged")
    with pytest.raises(BertVisionError, match=message):
        own_output(str(folder), kind, 2)
