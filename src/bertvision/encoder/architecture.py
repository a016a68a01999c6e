"""Names of the modules inside transformers' models, by architecture; no other file has such names."""

from dataclasses import dataclass

from torch import nn

from bertvision.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Paths of modules inside a transformers model of one architecture.

    Attributes:
        blocks: the list of layers.
        attention_output: within a layer, the linear map after attention, before the residual sum.
        feed_forward_output: within a layer, the second linear map of the feed-forward block.
        attention_dropout: within a layer, the dropout of attention weights: a module, or its probability.
        first_position: position id of a window's first token; None if it is the padding token's id plus 1.
        final_norm: the LayerNorm after the last layer; None if there is none.
    """

    blocks: str = "encoder.layer"
    attention_output: str = "attention.output.dense"
    feed_forward_output: str = "output.dense"
    attention_dropout: str = "attention.self.dropout"
    first_position: int | None = 0
    final_norm: str | None = None


ARCHITECTURES = {
    "bert": Architecture(),
    "electra": Architecture(),
    "deberta-v2": Architecture(),
    "roberta": Architecture(first_position=None),
    "xlm-roberta": Architecture(first_position=None),
    "mpnet": Architecture(
        attention_output="attention.attn.o", attention_dropout="attention.attn.dropout", first_position=None
    ),
    "albert": Architecture(
        blocks="encoder.albert_layer_groups",
        attention_output="attention.dense",
        feed_forward_output="ffn_output",
        attention_dropout="attention.attention_dropout",
    ),
    "distilbert": Architecture(
        blocks="transformer.layer",
        attention_output="attention.out_lin",
        feed_forward_output="ffn.lin2",
        attention_dropout="attention.dropout",
    ),
    "modernbert": Architecture(
        blocks="layers",
        attention_output="attn.Wo",
        feed_forward_output="mlp.Wo",
        attention_dropout="attn.attention_dropout",
        final_norm="final_norm",
    ),
}
"""By `model_type` of the transformers config."""


def architecture_of(model_type: str) -> Architecture:
    """The module names of models with this `model_type`.

    Raises:
        UnknownNameError: the type is not one of `ARCHITECTURES`.
    """
    if model_type not in ARCHITECTURES:
        raise UnknownNameError("encoder architecture", model_type, ARCHITECTURES)
    return ARCHITECTURES[model_type]


def blocks_of(model: nn.Module, architecture: Architecture) -> list[nn.Module]:
    """Every layer with weights of its own, lowest first; ALBERT has few, in groups, and runs each several times."""
    children = list(model.get_submodule(architecture.blocks).children())
    groups = [
        list(group.get_submodule("albert_layers").children()) for group in children if hasattr(group, "albert_layers")
    ]
    return [block for group in groups for block in group] if groups else children


def calls_of(model: nn.Module, architecture: Architecture, layers: int) -> list[nn.Module]:
    """The layer module of every call in a forward pass, in order; ALBERT's modules occur several times.

    Args:
        model: a transformers model.
        architecture: its module names.
        layers: `num_hidden_layers` of its config.
    """
    groups = list(model.get_submodule(architecture.blocks).children())
    if not hasattr(groups[0], "albert_layers"):
        return groups
    calls = []
    for layer in range(layers):
        calls += list(groups[int(layer / (layers / len(groups)))].get_submodule("albert_layers").children())
    return calls


def drop_attention_dropout(model: nn.Module, architecture: Architecture) -> None:
    """Set the dropout of attention weights to 0; all other dropouts stay as they are."""
    for block in blocks_of(model, architecture):
        owner, _, name = architecture.attention_dropout.rpartition(".")
        module = block.get_submodule(owner)
        if isinstance(getattr(module, name), nn.Dropout):
            getattr(module, name).p = 0.0
        else:
            setattr(module, name, 0.0)
