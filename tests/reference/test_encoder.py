"""Our hidden states against transformers' own, for every architecture: alone, padded, packed, and cut short."""

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModel

from bertvision.encoder import Encoder, apply_learn, load_encoder, parse_learn
from bertvision.encoder.batch import packed_batch, padded_batch, unpack
from bertvision.errors import BertVisionError
from bertvision.tasks.windows import Windows
from close import EXACT, FLOAT32
from tiny_models import KINDS, PACKABLE, POOLED, save_tiny, tiny_windows

WINDOWS = tiny_windows(9, 4, 13, 13)
ALL = np.arange(len(WINDOWS))
BATCH = padded_batch(WINDOWS, ALL)


@dataclass(frozen=True)
class Case:
    """A small encoder, loaded as users do, and what transformers gives for each window alone."""

    kind: str
    name: str
    encoder: Encoder
    states: list[Tensor]  # (layers, tokens, width) each
    pooled: list[Tensor]  # (width,) each, where there is a pooler


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {kind: make_case(kind, save_tiny(tmp_path_factory.mktemp(kind), kind)) for kind in KINDS}


@pytest.fixture
def case(request: pytest.FixtureRequest, cases: dict[str, Case]) -> Case:
    return cases[request.param]


def every(kinds: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", kinds, indirect=True)


def make_case(kind: str, name: str) -> Case:
    model = AutoModel.from_pretrained(name).eval()
    outputs = [plain_pass(model, WINDOWS, row) for row in range(len(WINDOWS))]
    return Case(
        kind=kind,
        name=name,
        encoder=load_encoder(name),
        states=[torch.cat(output.hidden_states) for output in outputs],
        pooled=[output.pooler_output[0] for output in outputs] if kind in POOLED else [],
    )


@torch.no_grad()
def plain_pass(model: Any, windows: Windows, row: int) -> Any:  # noqa: ANN401 - transformers has no types
    """One window through transformers' model, with every input written out."""
    tokens = slice(windows.bounds[row], windows.bounds[row + 1])
    ids = torch.from_numpy(windows.ids[tokens].astype(np.int64))[None]
    more = {}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        more["token_type_ids"] = torch.from_numpy(windows.types[tokens].astype(np.int64))[None]
    return model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True, **more)


def check_close(got: Tensor | None, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=FLOAT32, atol=FLOAT32)


def check_equal(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=EXACT, atol=EXACT)


@every(KINDS)
@torch.no_grad()
def test_every_layer_of_a_window_alone_equals_transformers(case: Case) -> None:
    for row in ALL:
        hidden = case.encoder(padded_batch(WINDOWS, ALL[row : row + 1]))
        assert hidden.layers == case.encoder.depth + 1
        check_close(hidden.states[0], case.states[row])


@every(KINDS)
@pytest.mark.parametrize("pad", [0, 1])
@torch.no_grad()
def test_padding_changes_nothing(case: Case, pad: int) -> None:
    hidden = case.encoder(padded_batch(WINDOWS, ALL, pad=pad))
    assert hidden.states.shape[2] == 13
    for row, expected in enumerate(case.states):
        check_close(hidden.states[row][:, hidden.mask[row]], expected)


@every(PACKABLE)
@torch.no_grad()
def test_packed_windows_equal_windows_alone(case: Case) -> None:
    encoder = load_encoder(case.name)
    for rows in ([0, 1, 2, 3], [2], [2, 3], [3, 1, 0]):
        batch = packed_batch(WINDOWS, np.array(rows))
        states, mask = unpack(encoder(batch).states[0].transpose(0, 1), batch)  # (windows, tokens, layers, width)
        for place, row in enumerate(rows):
            check_close(states[place, mask[place]].transpose(0, 1), case.states[row])


@every(sorted(set(KINDS) - set(PACKABLE)))
def test_encoders_with_an_attention_of_their_own_refuse_packed_windows(case: Case) -> None:
    encoder = load_encoder(case.name)
    assert not encoder.can_pack
    with pytest.raises(BertVisionError, match=r"\((mpnet|deberta-v2)\) cannot take packed windows; pad them"):
        encoder(packed_batch(WINDOWS, ALL))


@every(KINDS)
@torch.no_grad()
def test_layers_above_the_last_one_needed_do_not_run(case: Case) -> None:
    check_depths(case.encoder, packed=False)


@every(PACKABLE)
@torch.no_grad()
def test_layers_above_the_last_one_needed_do_not_run_when_packed(case: Case) -> None:
    check_depths(load_encoder(case.name), packed=True)


def check_depths(encoder: Encoder, *, packed: bool) -> None:
    batch = packed_batch(WINDOWS, ALL) if packed else BATCH
    whole = encoder(batch).states
    run: list[nn.Module] = []
    hooks = [block.register_forward_hook(lambda block, *_: run.append(block)) for block in encoder.blocks]
    for depth in range(encoder.depth + 1):
        run.clear()
        part = encoder(batch, layers=[depth]).states
        assert len(run) == depth
        check_equal(part[:, 0], whole[:, depth])
    for hook in hooks:
        hook.remove()


@every(KINDS)
@torch.no_grad()
def test_chosen_layers_come_in_their_order(case: Case) -> None:
    check_equal(case.encoder(BATCH, layers=[0, 2]).states, case.encoder(BATCH).states[:, [0, 2]])


@every(KINDS)
@torch.no_grad()
def test_a_visitor_that_keeps_nothing_sees_one_layer_at_a_time(case: Case) -> None:
    seen: list[weakref.ref[Tensor]] = []

    def look(layer: int, states: Tensor) -> None:
        assert layer == len(seen)
        alive = sum(earlier() is not None for earlier in seen[1:])  # transformers itself holds on to layer 0 …
        assert alive <= int(case.kind.startswith(("albert", "deberta")))  # … and in these to the layer before
        seen.append(weakref.ref(states))

    case.encoder.visit(BATCH, look)
    assert len(seen) == case.encoder.depth + 1


@every(POOLED)
@torch.no_grad()
def test_the_pooled_vector_is_that_of_transformers(case: Case) -> None:
    hidden = load_encoder(case.name, pooler=True)(BATCH, layers=[0], pooled=True)
    assert hidden.layers == 1
    check_close(hidden.pooled, torch.stack(case.pooled))


@every(sorted(set(KINDS) - set(POOLED)))
def test_encoders_without_a_pooled_vector_say_so(case: Case) -> None:
    with pytest.raises(BertVisionError, match="has no pooled vector"):
        load_encoder(case.name, pooler=True)(BATCH, pooled=True)


@every(KINDS)
def test_every_parameter_that_learns_gets_a_gradient(case: Case) -> None:
    encoder = load_encoder(case.name)
    apply_learn(encoder, parse_learn("full"))
    torch.autograd.backward(encoder(BATCH).states[:, -1].square().sum())
    assert [name for name, value in encoder.model.named_parameters() if value.grad is None] == []


FIRST_RUN = {"albert": 0, "albert-groups": 5}
"""The step at which the top layer runs first, where its weights serve below, too; elsewhere it is the last, 2."""


@every(KINDS)
def test_the_backward_pass_stops_below_the_lowest_parameter_that_learns(case: Case) -> None:
    encoder = load_encoder(case.name)
    apply_learn(encoder, parse_learn("top:1:strict"))
    states = visited(encoder)
    first = FIRST_RUN.get(case.kind, 2)
    assert [layer.requires_grad for layer in states] == [False] * (first + 1) + [True] * (encoder.depth - first)
    assert all(layer.grad_fn is None for layer in states[: first + 1])
    torch.autograd.backward(states[-1].square().sum())
    learning = {name for name, value in encoder.model.named_parameters() if value.requires_grad}
    assert learning == {name for name, value in encoder.model.named_parameters() if value.grad is not None}


@every(KINDS)
def test_layernorms_that_learn_keep_every_layer_in_the_backward_pass(case: Case) -> None:
    encoder = load_encoder(case.name)
    apply_learn(encoder, parse_learn("layernorm"))
    states = visited(encoder)
    assert all(layer.requires_grad for layer in states)
    torch.autograd.backward(states[-1].square().sum())
    assert all(value.grad is not None for value in encoder.model.parameters() if value.requires_grad)


def visited(encoder: Encoder) -> list[Tensor]:
    states: list[Tensor] = []
    encoder.visit(BATCH, lambda _layer, layer_states: states.append(layer_states))
    return states
