"""Formulas of costs, by hand and against torch's own counter of operations."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertvision.bench.cost import (
    EncoderShape,
    Learning,
    Load,
    disk_bytes,
    encode_seconds,
    exchange_seconds,
    learning_of,
    load_operations,
    original_bytes,
    shape_of,
    step_seconds,
    tune_seconds,
    window_operations,
)
from bertvision.bench.hardware import Hardware
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.encoder.load import drop_pooler
from bertvision.errors import BertVisionError
from tiny_models import KINDS, tiny_model

SHAPE = EncoderShape(width=8, depth=3, inner=32)
SLOW = Hardware(name="slow", peak=100.0, utilisation=0.5, update=2.0, draw=3.0, touch=5.0, step_per_layer=7.0)

TOKENS = 40
"""Of 4 windows of 10."""

PROJECTED = {"albert": 8, "albert-groups": 8, "electra": 8}
"""Width of embeddings that are projected before the first layer, which no layer computes."""


def small_encoder(kind: str = "bert") -> Encoder:
    model = tiny_model(kind)
    model.set_attn_implementation("eager")  # torch does not count what other kernels compute
    drop_pooler(model)
    return Encoder(model, name=kind)


def product_in_place(_target: object, left: list[int], right: list[int], **_other: object) -> int:
    """Operations of a product that is added to what is there, which torch does not count by itself."""
    return 2 * left[0] * left[1] * right[1]


def counted(encoder: Encoder, *, back: bool = False) -> int:
    """Operations of a pass, or of a pass and its way back, as torch counts them."""
    own = {torch.ops.aten.addmm_: product_in_place}
    with FlopCounterMode(display=False, custom_mapping=own) as counter, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # transformers' DeBERTa still uses torch.jit.script
        states = encoder.model(input_ids=torch.full((4, 10), 7)).last_hidden_state
        if back:
            states.sum().backward()
    rotary = [found for name, found in counter.get_flop_counts().items() if name.endswith("rotary_emb")]
    # some versions of transformers compute the angles of positions by a product
    return int(counter.get_total_flops()) - sum(sum(found.values()) for found in rotary)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("deberta")])
def test_operations_of_a_pass_are_those_that_torch_counts(kind: str) -> None:
    encoder = small_encoder(kind)
    shape = shape_of(encoder.config)
    projected = 2 * TOKENS * PROJECTED.get(kind, 0) * shape.width
    assert load_operations(shape, Load.of(np.full(4, 10))) + projected == counted(encoder)


def test_distances_of_deberta_are_counted_but_for_their_projection_once_per_batch() -> None:
    encoder = small_encoder("deberta-v2")
    shape = shape_of(encoder.config)
    assert shape.positions == 2 * 4
    projected = shape.depth * 2 * (2 * 8 * 16 * 16)  # for keys and for queries
    assert load_operations(shape, Load.of(np.full(4, 10))) + projected == counted(encoder)


@pytest.mark.parametrize(
    ("learn", "unasked"),
    [
        ("full", 0),
        ("top:1", 0),
        # nothing below learns, so nobody asks for the gradient of what query, key and value read
        ("top:2:strict", 3 * 16 * 16),
        ("lora:4", 3 * 16 * (16 + 4)),
        ("houlsby:4", 0),
    ],
)
def test_operations_of_a_step_are_those_that_torch_counts(learn: str, unasked: int) -> None:
    encoder = small_encoder()
    shape, learnt = shape_of(encoder.config), parse_learn(learn)
    apply_learn(encoder, learnt)
    learning = learning_of(learnt, shape, 0)
    again = 0.5 * learning.passed * 400 * 4 * 16  # this attention keeps its scores, and computes nothing twice
    said = load_operations(shape, Load.of(np.full(4, 10)), learning)
    assert said - again - 2 * TOKENS * unasked == counted(encoder, back=True)


def test_the_operations_of_windows_sum_up_to_those_of_their_load() -> None:
    lengths = np.array([3, 5, 2])
    learning = learning_of(parse_learn("lora:2"), SHAPE, 10)
    assert window_operations(SHAPE, lengths).sum() == load_operations(SHAPE, Load.of(lengths))
    assert window_operations(SHAPE, lengths, learning).sum() == load_operations(SHAPE, Load.of(lengths), learning)


def test_a_pass_by_hand() -> None:
    # 3 layers; 10 tokens × 2 × (4 × 8 × 8 + 2 × 8 × 32) and (9 + 25 + 4) pairs × 4 × 8
    operations = 3 * (10 * 1536 + 38 * 32)
    assert load_operations(SHAPE, Load.of(np.array([3, 5, 2]))) == operations
    assert encode_seconds(SHAPE, Load.of(np.array([3, 5, 2])), SLOW) == operations / 50


def test_a_step_by_hand() -> None:
    load = Load(windows=1, tokens=2, pairs=4)
    learning = Learning(passed=2, learnt=1, added=6, touched=11, parameters=13)
    products = 2 * (3 * 1536 + 2 * 1536 + 1536 + 3 * 3 * 6) + 4 * 32 * (3 + 2.5 * 2)
    beside = 2 * (3.0 * 7 * 8 + 5.0 * 3 * 11)
    assert step_seconds(SHAPE, learning, SLOW) == 3 * 7.0 + 13 * 2.0
    assert tune_seconds(SHAPE, learning, load, SLOW, steps=4) == products / 50 + beside + 4 * (21 + 26)


@pytest.mark.parametrize(
    ("learn", "passed", "learnt"),
    [
        ("full", 3, 3),
        ("top:2", 3, 2),
        ("top:2:strict", 2, 2),
        ("lora:4", 3, 0),
        ("houlsby:4", 3, 0),
        ("houlsby:4+full", 3, 3),
        ("bitfit", 3, 0),
        ("layernorm", 3, 0),
        ("none", 0, 0),
    ],
)
def test_what_learns_says_how_far_gradients_go(learn: str, passed: int, learnt: int) -> None:
    found = learning_of(parse_learn(learn), SHAPE, 5)
    assert (found.passed, found.learnt, found.parameters) == (passed, learnt, 5)


def test_what_is_put_into_layers_computes_little_and_touches_much() -> None:
    gated = replace(SHAPE, gated=True)  # four maps of 8 → 8, two of 8 → 32, one of 32 → 8
    lora = learning_of(parse_learn("lora:2"), gated, 0)
    assert lora.added == 2 * 2 * (4 * 16 + 3 * 40)
    assert lora.touched == 4 * (6 * 8 + 10 * 8) + 2 * (6 * 8 + 10 * 32) + (6 * 32 + 10 * 8)
    houlsby = learning_of(parse_learn("houlsby:4"), SHAPE, 0)
    assert (houlsby.added, houlsby.touched) == (2 * 2 * (8 * 4 + 4 * 8), 24 * 8)


def test_gradients_go_round_a_ring() -> None:
    fast = replace(SLOW, inside=100.0, between=10.0)
    assert exchange_seconds(50, fast, 1) == 0
    assert exchange_seconds(50, fast, 4) == 2 * 3 / 4 * 200 / 100
    assert exchange_seconds(50, fast, 16) == 2 * 15 / 16 * 200 / 10


def test_bytes_of_a_store_and_of_the_original_by_hand() -> None:
    load = Load(windows=100, tokens=1000, pairs=0)
    kept = disk_bytes(SHAPE, load)
    beside = 2048 + 16384
    assert kept["store, fp16"] == 1000 * 4 * 8 * 2 + beside
    assert kept["store, int8"] == 1000 * 4 * (8 + 2) + beside + 8 * 4 * 8
    assert kept["store, one row per window, fp16"] == 100 * 4 * 8 * 2 + beside
    assert kept["original: float32, padded to 386"] == original_bytes(SHAPE, 100) == 100 * 386 * 4 * 8 * 4


def test_a_config_that_names_no_inner_width_is_refused() -> None:
    class Odd:
        model_type = "odd"

    with pytest.raises(BertVisionError, match="config of a odd names no intermediate_size"):
        shape_of(Odd())
