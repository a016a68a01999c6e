"""Which parameters learn: exact counts for BERT-base, exact names for every architecture."""

import re
from pathlib import Path

import pytest
from transformers import BertConfig

from bertvision.encoder import Encoder, apply_learn, build_encoder, parse_learn
from bertvision.errors import BertVisionError
from tiny_models import KINDS, tiny_model

SPAN_OUTPUT = 768 * 2 + 2
UNCASED, CASED = 30_522, 28_996


def learning(encoder: Encoder) -> set[str]:
    return {name for name, value in encoder.model.named_parameters() if value.requires_grad}


def tiny(kind: str = "bert") -> Encoder:
    return Encoder(tiny_model(kind), name="tiny")


def learnt_in_bert_base(folder: Path, learn: str, vocabulary: int = UNCASED) -> int:
    BertConfig(vocab_size=vocabulary).save_pretrained(folder)
    encoder = build_encoder(str(folder / "config.json"))
    apply_learn(encoder, parse_learn(learn))
    assert encoder.device.type == "meta"
    return sum(value.numel() for value in encoder.model.parameters() if value.requires_grad)


@pytest.mark.parametrize(
    ("learn", "with_span_output"),
    [
        ("top:0", 39_938),
        ("layernorm", 39_938),
        ("top:1", 7_124_738),
        ("top:3", 21_294_338),
        ("top:6", 42_548_738),
        ("houlsby:64", 2_419_202),
        ("houlsby:768", 28_388_354),
        ("none", 1_538),
    ],
)
def test_bert_base_learns_as_many_parameters_as_the_documents_say(
    tmp_path: Path, learn: str, with_span_output: int
) -> None:
    assert learnt_in_bert_base(tmp_path, learn) + SPAN_OUTPUT == with_span_output


@pytest.mark.parametrize(("learn", "with_span_output"), [("full", 108_311_810), ("houlsby:64+full", 110_691_074)])
def test_full_tuning_of_the_cased_encoder_counts_its_pooler(tmp_path: Path, learn: str, with_span_output: int) -> None:
    assert learnt_in_bert_base(tmp_path, learn, CASED) + SPAN_OUTPUT == with_span_output


@pytest.mark.parametrize(
    ("learn", "count"),
    [
        ("top:1:strict", 7_087_872),  # one layer and nothing else
        ("top:3:strict", 3 * 7_087_872),
        ("top:12", 12 * 7_087_872 + 2 * 768),  # every layer, and the LayerNorm of the embeddings
        ("bitfit", 768 + 12 * (4 * 768 + 3_072 + 768 + 2 * 768)),  # attention, feed-forward, LayerNorms
        ("lora:16", 12 * 16 * (4 * (768 + 768) + 2 * (768 + 3_072))),
    ],
)
def test_other_choices_learn_what_arithmetic_says(tmp_path: Path, learn: str, count: int) -> None:
    assert learnt_in_bert_base(tmp_path, learn) == count


def test_adapters_for_bert_base_take_ten_megabytes_to_keep(tmp_path: Path) -> None:
    kept = 4 * learnt_in_bert_base(tmp_path, "houlsby:64")
    whole = 4 * learnt_in_bert_base(tmp_path, "full")
    assert kept < 10e6
    assert whole > 430e6


TOP = {
    "albert": "albert_layer_groups.0.",
    "albert-groups": "albert_layer_groups.1.albert_layers.1.",
    "modernbert": "layers.2.|final_norm.",
}
"""Names of the parameters of the last layer, where they differ from those of BERT."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_choice_means_the_same_parameters_in_every_architecture(kind: str) -> None:
    top = TOP.get(kind, "layer.2.").replace(".", r"\.")
    norm, added = "[Nn]orm", r"\.houlsby\.(down|up)\.(weight|bias)$"
    expected = {
        "full": ".",
        "top:0": norm,
        "layernorm": norm,
        "top:1": f"{top}|{norm}",
        "top:1:strict": top,
        "houlsby:4": f"{norm}|{added}",
        "houlsby:4+full": ".",
        "lora:2": r"\.lora_[AB]\.",
    }
    for learn, pattern in expected.items():
        encoder = tiny(kind)
        apply_learn(encoder, parse_learn(learn))
        names = [name for name, _ in encoder.model.named_parameters()]
        assert learning(encoder) == {name for name in names if re.search(pattern, name)}, learn
        assert learning(encoder), learn


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "modernbert"])
def test_bitfit_means_every_bias_but_the_pooler_s(kind: str) -> None:
    encoder = tiny(kind)
    apply_learn(encoder, parse_learn("bitfit"))
    biases = {name for name in encoder.model.state_dict() if name.endswith("bias")}
    assert learning(encoder) == biases - {"pooler.dense.bias", "pooler.bias"}
    assert any("ayer" in name for name in learning(encoder))


def test_an_encoder_without_biases_cannot_learn_them() -> None:
    with pytest.raises(BertVisionError, match=r"--learn bitfit: tiny \(modernbert\) has no biases"):
        apply_learn(tiny("modernbert"), parse_learn("bitfit"))


@pytest.mark.parametrize("learn", ["none", "top:0:strict"])
def test_nothing_learns_where_nothing_was_chosen(learn: str) -> None:
    encoder = tiny()
    apply_learn(encoder, parse_learn(learn))
    assert learning(encoder) == set()


def test_a_later_choice_replaces_an_earlier_one() -> None:
    encoder, fresh = tiny(), tiny()
    for learn in ("full", "top:2", "bitfit", "top:1"):
        apply_learn(encoder, parse_learn(learn))
    apply_learn(fresh, parse_learn("top:1"))
    assert learning(encoder) == learning(fresh)


def test_more_layers_than_there_are_cannot_learn() -> None:
    with pytest.raises(BertVisionError, match="--learn top:4: tiny has 3 layers only"):
        apply_learn(tiny(), parse_learn("top:4"))


@pytest.mark.parametrize(
    "word",
    [
        "",
        "Full",
        "top",
        "top:",
        "top:-1",
        "top:x",
        "top:2+full",
        "houlsby:0",
        "houlsby:8:strict",
        "lora:0",
        "lora:4+full",
    ],
)
def test_a_word_that_is_no_choice_is_answered_with_all_of_them(word: str) -> None:
    with pytest.raises(BertVisionError) as caught:
        parse_learn(word)
    assert str(caught.value).startswith(f"--learn is '{word}', one of these is expected: full, top:K, top:K:strict, ")
    assert str(caught.value).endswith(" D and R are whole numbers from 1 on, such as lora:16.")


@pytest.mark.parametrize("word", ["full", "top:3", "top:3:strict", "houlsby:8", "houlsby:8+full", "lora:4", "none"])
def test_a_choice_keeps_the_word_it_was_given_by(word: str) -> None:
    assert parse_learn(word).word == word
