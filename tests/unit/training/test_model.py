from dataclasses import replace
from typing import final

import numpy as np
import pytest
import torch
from torch import Tensor
from typing_extensions import override

from bertvision.encoder.batch import TokenBatch, packed_batch, padded_batch, token_batch
from bertvision.heads import HEADS, Head, HeadOptions, HeadShape, build_head
from bertvision.heads.last_layer import LastLayer
from bertvision.heads.parts.output import OutputMap
from bertvision.objectives import Pool, pool_rows
from bertvision.tasks.windows import Windows
from bertvision.training.model import TaskModels, TunedModel
from close import FLOAT32
from tiny_run import WIDTH, tiny_encoder, tiny_model

SHAPE = HeadShape(layers=3, width=WIDTH, outputs=2)
WITH_POOLED = HeadShape(layers=4, width=WIDTH, outputs=2)

SMALL: dict[str, HeadOptions] = {
    "pooled_adapter_xception": {"adapter": 8, "stem": (4, 4), "entry": (8, 8), "middle": 1, "exit": (8, 8)},
    "xception_full": {"stem": (4, 4), "entry": (8, 8), "middle": 1, "exit": (8, 8), "tail": (8, 8)},
}
"""Options that make the largest heads small enough for tests."""


def some_windows(*lengths: int) -> Windows:
    """Windows of random tokens; the second half of each is in segment 1."""
    tokens = sum(lengths)
    count = len(lengths)
    return Windows(
        ids=np.random.default_rng(0).integers(5, 20, size=tokens).astype(np.int32),
        types=np.concatenate([np.arange(length) >= length / 2 for length in lengths]).astype(np.uint8),
        bounds=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        example=np.arange(count),
        targets=np.zeros((count, 2), dtype=np.int64),
        context=np.stack([np.zeros(count), np.array(lengths)], axis=1).astype(np.int64),
        context_token=np.zeros(count, dtype=np.int64),
        offsets=np.zeros((0, 2), dtype=np.int32),
        truncated=0,
    )


ROWS = np.array([0, 1, 2])
WINDOWS = some_windows(7, 3, 5)
PADDED = padded_batch(WINDOWS, ROWS)
END_TO_END = packed_batch(WINDOWS, ROWS)


@final
class Witness(Head):
    """Gives the sum of its layers' numbers, and keeps what it was given."""

    def __init__(self, shape: HeadShape, *, token_wise: bool, needs: tuple[int, ...] = (0, 1, 2)) -> None:
        super().__init__(shape)
        self.token_wise = token_wise
        self.wanted = needs
        self.project = OutputMap(1, 1)
        self.given: list[tuple[Tensor, Tensor, Tensor | None]] = []

    @property
    @override
    def needs(self) -> tuple[int, ...]:
        return self.wanted

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        self.given.append((states, mask, context))
        return states.sum(dim=(1, 3))[..., None]


def seeded_head(name: str, shape: HeadShape = SHAPE, options: HeadOptions | None = None) -> Head:
    """A head of which every parameter differs from its usual start, so that nothing is close to zero."""
    torch.manual_seed(0)
    head = build_head(name, shape, SMALL.get(name, {}) if options is None else options)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in head.parameters():
            value.add_(0.1 * torch.randn(value.shape, generator=random))
    return head


def model_of(head: Head, *, pool: Pool | None = None, pooled: bool = False) -> TunedModel:
    torch.manual_seed(0)
    return TunedModel(tiny_encoder(pooler=pooled), head, pool=pool, pooled=pooled).eval()


def own_states(model: TunedModel, batch: TokenBatch) -> Tensor:
    """Every layer as transformers gives it, (batch, layers, tokens, width)."""
    output = model.encoder.model(
        input_ids=batch.ids, token_type_ids=batch.types, attention_mask=batch.mask.long(), output_hidden_states=True
    )
    return torch.stack(output.hidden_states, dim=1)


def check_close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, atol=FLOAT32, rtol=FLOAT32)


@torch.no_grad()
def test_outputs_are_the_head_of_the_last_layer() -> None:
    model = tiny_model().eval()
    outputs, mask = model(PADDED)
    last = own_states(model, PADDED)[:, -1]
    assert isinstance(model.head, LastLayer)
    expected = last @ model.head.project.weight.T + model.head.project.bias
    assert outputs.shape == (3, 7, 2)
    check_close(outputs[mask], expected[mask])
    assert mask.sum(dim=1).tolist() == [7, 3, 5]


@pytest.mark.parametrize("token_wise", [True, False])
@torch.no_grad()
def test_a_head_gets_the_layers_it_reads_and_no_others(*, token_wise: bool) -> None:
    for needs in ((0, 1, 2), (0, 2), (1,)):
        witness = Witness(SHAPE, token_wise=token_wise, needs=needs)
        model = model_of(witness)
        model(PADDED)
        [(states, mask, _)] = witness.given
        assert torch.equal(mask, PADDED.mask)
        expected = own_states(model, PADDED)[:, list(needs)]
        check_close(states.transpose(1, 2)[mask], expected.transpose(1, 2)[mask])


@torch.no_grad()
def test_the_encoder_goes_no_higher_than_the_head_reads() -> None:
    model = model_of(seeded_head("layer_mean", options={"layers": "0..1"}))
    ran: list[int] = []
    for number, block in enumerate(model.encoder.blocks):
        block.register_forward_hook(lambda *_, number=number: ran.append(number))
    outputs, mask = model(PADDED)
    assert ran == [0]
    expected = model.head.project(own_states(model, PADDED)[:, :2].mean(dim=1))
    check_close(outputs[mask], expected[mask])


@pytest.mark.parametrize("name", HEADS)
@torch.no_grad()
def test_packed_windows_come_out_as_padded_ones_do(name: str) -> None:
    model = model_of(seeded_head(name)).double()  # blocks of convolutions enlarge the last bits of float32
    expected, mask = model(PADDED)
    outputs, packed_mask = model(END_TO_END)
    assert torch.equal(mask, packed_mask)
    assert outputs.shape == expected.shape == (3, 7, 2)
    check_close(outputs[mask], expected[mask])
    assert outputs[mask].std(dim=0).min() > FLOAT32  # tokens differ, so that their order matters


@pytest.mark.parametrize("name", ["layer_mix", "context_conv", "ladder"])
@pytest.mark.parametrize("pool", ["cls", "mean"])
@torch.no_grad()
def test_packed_windows_are_pooled_as_padded_ones_are(name: str, pool: Pool) -> None:
    model = model_of(seeded_head(name), pool=pool)
    expected, mask = model(PADDED)
    outputs, packed_mask = model(END_TO_END)
    assert torch.equal(mask, packed_mask)
    check_close(outputs[mask], expected[mask])


@torch.no_grad()
def test_a_head_that_looks_beyond_a_token_is_told_where_the_context_is() -> None:
    context = [[False] * 4 + [True] * 3, [False] * 2 + [True] + [False] * 4, [False] * 3 + [True] * 2 + [False] * 2]
    witness = Witness(SHAPE, token_wise=False)
    model = model_of(witness)
    model(PADDED)
    model(END_TO_END)
    for states, mask, given in witness.given:
        assert given is not None
        assert given.tolist() == context
        assert torch.equal(mask, PADDED.mask)
        assert states.shape == (3, 3, 7, WIDTH)


@torch.no_grad()
def test_a_question_can_be_hidden_from_a_head_in_a_whole_model() -> None:
    plain = model_of(seeded_head("context_conv"))
    hiding = model_of(seeded_head("context_conv", options={"mask_question": True}))
    mask = PADDED.mask
    assert not torch.allclose(plain(PADDED)[0][mask], hiding(PADDED)[0][mask], atol=FLOAT32)
    check_close(hiding(END_TO_END)[0][mask], model_of(hiding.head)(PADDED)[0][mask])


def late_rows(model: TunedModel, pool: Pool) -> Tensor:
    """The rows of a model that reads every token, pooled at the end."""
    outputs, mask = model(PADDED)
    return pool_rows(outputs, mask, pool)


LINEAR = ["last_layer", "layer_mix", "layer_mean", "layer_concat"]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("pool", ["cls", "mean"])
@torch.no_grad()
def test_states_pooled_before_a_linear_head_give_its_pooled_outputs(name: str, pool: Pool) -> None:
    head = seeded_head(name)
    early, late = model_of(head, pool=pool), model_of(head)
    outputs, mask = early(PADDED)
    assert outputs.shape == (3, 1, 2)
    assert mask.tolist() == [[True]] * 3
    check_close(pool_rows(outputs, mask, pool), late_rows(late, pool))


@torch.no_grad()
def test_a_head_that_is_not_linear_reads_the_mean_of_the_states_and_not_each_of_them() -> None:
    head = seeded_head("adapter_pool", options={"size": 4})
    early, late = model_of(head, pool="mean"), model_of(head)
    mean = torch.stack(
        [own_states(early, PADDED)[row][:, PADDED.mask[row]].mean(dim=1) for row in range(3)]
    )  # (batch, layers, width)
    expected = head(mean[:, :, None], torch.ones(3, 1, dtype=torch.bool))
    check_close(early(PADDED)[0], expected)
    assert not torch.allclose(expected[:, 0], late_rows(late, "mean"), atol=FLOAT32)


@pytest.mark.parametrize("pool", ["cls", "mean"])
@torch.no_grad()
def test_a_token_wise_head_reads_one_token_of_a_window_that_counts_as_one(pool: Pool) -> None:
    witness = Witness(SHAPE, token_wise=True)
    model_of(witness, pool=pool)(PADDED)
    [(states, mask, _)] = witness.given
    assert states.shape == (3, 3, 1, WIDTH)
    assert mask.tolist() == [[True]] * 3


@pytest.mark.parametrize("name", ["context_conv", "ladder"])
@torch.no_grad()
def test_a_head_that_looks_beyond_a_token_gets_every_token_whatever_the_pool(name: str) -> None:
    head = seeded_head(name)
    outputs, mask = model_of(head, pool="mean")(PADDED)
    expected, _ = model_of(head)(PADDED)
    assert torch.equal(mask, PADDED.mask)
    check_close(outputs[mask], expected[mask])


@torch.no_grad()
def test_the_pooled_vector_is_the_lowest_layer_a_head_gets() -> None:
    witness = Witness(WITH_POOLED, token_wise=False, needs=(0, 1, 2, 3))
    model = model_of(witness, pooled=True)
    model(PADDED)
    [(states, mask, context)] = witness.given
    layers = own_states(model, PADDED)
    weight, bias = (model.encoder.model.get_parameter(f"pooler.dense.{part}") for part in ("weight", "bias"))
    pooled = torch.tanh(layers[:, -1, 0] @ weight.T + bias)
    assert states.shape == (3, 4, 7, WIDTH)
    check_close(states[:, 0], pooled[:, None].expand(-1, 7, -1))
    check_close(states[:, 1:].transpose(1, 2)[mask], layers.transpose(1, 2)[mask])
    assert context is not None
    assert context.sum() == 3 + 1 + 2


@pytest.mark.parametrize(("layers", "reads"), [("0..0", (0,)), ("0..2", (0, 1, 2)), ("1..3", (1, 2, 3))])
@torch.no_grad()
def test_with_the_pooled_vector_a_head_still_reads_the_layers_it_is_told_to(
    layers: str, reads: tuple[int, ...]
) -> None:
    head = seeded_head("layer_mean", WITH_POOLED, {"layers": layers})
    model = model_of(head, pool="cls", pooled=True)
    assert head.reads == reads
    everything = model.encoder(PADDED, pooled=True).with_pooled().states
    expected = head.project(everything[:, list(reads), 0].mean(dim=1))
    check_close(model(PADDED)[0][:, 0], expected)


def test_the_pooler_learns_through_the_head() -> None:
    model = model_of(seeded_head("layer_mix", WITH_POOLED), pool="cls", pooled=True)
    outputs, _ = model(PADDED)
    torch.autograd.backward(outputs.sum())
    assert all(value.grad is not None for value in model.parameters())


def test_gradients_reach_the_encoder_through_every_layer_that_is_read() -> None:
    model = model_of(seeded_head("adapter_pool", options={"size": 4}))
    outputs, mask = model(END_TO_END)
    torch.autograd.backward(outputs[mask].square().sum())
    assert [name for name, value in model.named_parameters() if value.grad is None] == []


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_the_vectors_of_a_pair_apart_stand_side_by_side(pool: Pool) -> None:
    torch.manual_seed(0)
    encoder = tiny_encoder()
    head = build_head("last_layer", HeadShape(layers=3, width=2 * WIDTH, outputs=2))
    model = TunedModel(encoder, head, pool=pool, apart=True).eval()
    first, second = some_windows(7, 3), some_windows(4, 6)
    pairs = replace(first, second=second)
    outputs, mask = model(token_batch(pairs, np.array([0, 1]), packed=False, pad=0))
    assert mask.tolist() == [[True], [True]]
    for number in range(2):  # each text by itself, without any padding
        one, two = (encoder(padded_batch(windows, np.array([number]))).states[0, -1] for windows in (first, second))
        vectors = [states[0] if pool == "cls" else states.mean(dim=0) for states in (one, two)]
        expected = head.project(torch.cat(vectors))
        assert torch.allclose(outputs[number, 0], expected, atol=FLOAT32)
    packed, _ = model(token_batch(pairs, np.array([0, 1]), packed=True, pad=0))
    assert torch.allclose(packed, outputs, atol=FLOAT32)


def test_models_of_several_tasks_share_one_encoder_and_nothing_else() -> None:
    torch.manual_seed(0)
    encoder = tiny_encoder()
    alone = {name: TunedModel(encoder, build_head("last_layer", SHAPE)) for name in ("a", "b")}
    model = TaskModels(alone)
    count = sum(value.numel() for value in model.parameters())
    heads = sum(value.numel() for one in alone.values() for value in one.head.parameters())
    assert count == heads + sum(value.numel() for value in encoder.parameters())
    outputs, _ = model(PADDED, task="b")
    assert torch.equal(outputs, alone["b"](PADDED)[0])
    outputs.sum().backward()
    assert all(value.grad is None for value in alone["a"].head.parameters())
    assert all(value.grad is not None for value in alone["b"].head.parameters())
