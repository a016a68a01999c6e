"""Names of modules inside the transformers models of each architecture."""

from dataclasses import dataclass

from torch import nn

from bertvision.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Names inside a transformers model.

    Attributes:
        blocks: the list of layers.
        attention_output: inside a layer, the linear map after attention, before the residual sum.
        feed_forward_output: inside a layer, the linear map after the feed-forward part.
        attention_dropout: inside a layer, the dropout of attention weights, a module or a number.
        first_position: position number of a window's first token; None where it follows the padding token's number.
        final_norm: a LayerNorm behind the last layer, where there is one.
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
"""By `model_type` of the config."""


def architecture_of(model_type: str) -> Architecture:
    """The names inside models of a type.

    Raises:
        UnknownNameError: the type is not one of `ARCHITECTURES`.
    """
    if model_type not in ARCHITECTURES:
        raise UnknownNameError("encoder architecture", model_type, ARCHITECTURES)
    return ARCHITECTURES[model_type]


def blocks_of(model: nn.Module, architecture: Architecture) -> list[nn.Module]:
    """Every layer that has its own weights, lowest first; ALBERT's stand in groups and serve several times."""
    listed = list(model.get_submodule(architecture.blocks).children())
    inner = [
        list(group.get_submodule("albert_layers").children()) for group in listed if hasattr(group, "albert_layers")
    ]
    return [block for group in inner for block in group] if inner else listed


def calls_of(model: nn.Module, architecture: Architecture, layers: int) -> list[nn.Module]:
    """The module that computes each layer, lowest first; in ALBERT one module may compute several layers.

    Args:
        model: a transformers model.
        architecture: its names.
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
    """Set the dropout rate of attention weights to 0; other dropouts stay as they are."""
    for block in blocks_of(model, architecture):
        owner, _, name = architecture.attention_dropout.rpartition(".")
        module = block.get_submodule(owner)
        if isinstance(getattr(module, name), nn.Dropout):
            getattr(module, name).p = 0.0
        else:
            setattr(module, name, 0.0)
