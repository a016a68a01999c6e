import torch

from bertvision.heads import HeadShape, build_head, count_parameters
from bertvision.heads.last_layer import LastLayer
from close import EXACT, FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
STATES = torch.tensor(
    [[[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [2.0, 2.0]], [[4.0, -2.0], [-1.0, 5.0]]]]
)  # three layers of two tokens
MASK = torch.ones(1, 2, dtype=torch.bool)


def make_head(dropout: float = 0.0) -> LastLayer:
    head = LastLayer(SHAPE, dropout=dropout)
    head.load_state_dict(
        {"project.weight": torch.tensor([[1.0, 2.0], [3.0, -1.0]]), "project.bias": torch.tensor([0.5, -2.0])}
    )
    return head


def test_the_last_layer_is_projected_and_no_other() -> None:
    # (4, -2): 4 - 4 + 0.5 and 12 + 2 - 2; (-1, 5): -1 + 10 + 0.5 and -3 - 5 - 2
    assert make_head()(STATES, MASK).tolist() == [[[0.5, 12.0], [9.5, -10.0]]]


def test_only_the_last_layer_is_asked_for() -> None:
    head = make_head()
    assert (head.reads, head.depth) == ((2,), 2)
    torch.testing.assert_close(head(STATES[:, [2]], MASK), head(STATES, MASK), rtol=EXACT, atol=EXACT)


def test_of_some_layers_the_last_is_asked_for_as_the_encoder_counts() -> None:
    head = build_head("last_layer", HeadShape(layers=25, width=2, outputs=2), {"layers": "4..9"})
    assert head.reads == (9,)


def test_bert_large_has_2050_parameters_for_spans() -> None:
    assert count_parameters(LastLayer(HeadShape(layers=25, width=1024, outputs=2))) == 2050


def test_dropout_acts_on_the_states_while_learning_only() -> None:
    torch.manual_seed(0)
    head = LastLayer(HeadShape(layers=1, width=400, outputs=1), dropout=0.25)
    head.project.weight.data.fill_(1.0)
    states = torch.ones(1, 1, 2, 400)
    kept = head.train()(states, MASK) * 0.75  # what is kept is scaled up, so that the mean stays
    assert kept[0, 0] != kept[0, 1]
    assert torch.all((kept > 250) & (kept < 350))
    assert torch.allclose(kept, kept.round(), rtol=FLOAT32, atol=FLOAT32)
    assert head.eval()(states, MASK).tolist() == [[[400.0], [400.0]]]


def test_as_built_it_drops_nothing() -> None:
    head = build_head("last_layer", SHAPE).train()
    assert torch.equal(head(STATES, MASK), head(STATES, MASK))
