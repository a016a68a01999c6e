"""The changes to a tuned encoder: the parameters that learned, by name, and nothing else."""

from collections.abc import Mapping

from torch import Tensor

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import Learn, apply_learn
from bertvision.encoder.lora import merge_lora
from bertvision.errors import BertVisionError


def changed_weights(encoder: Encoder) -> dict[str, Tensor]:
    """The parameters that learn, by name, on the CPU: megabytes for adapters, the whole encoder for `full`."""
    return {
        name: value.detach().cpu().contiguous()
        for name, value in encoder.model.named_parameters()
        if value.requires_grad
    }


def apply_changes(encoder: Encoder, learn: Learn, changes: Mapping[str, Tensor]) -> None:
    """Load saved parameters into the encoder that was tuned, in its state before tuning.

    Raises:
        BertVisionError: the names or shapes are not those of the parameters that `learn` changes in this encoder.
    """
    apply_learn(encoder, learn)
    if not encoder.can_pool:  # a tuned pooler is not needed where the encoder was loaded without
        changes = {name: value for name, value in changes.items() if not name.startswith("pooler.")}
    learning = {
        name: value
        for name, value in encoder.model.named_parameters()
        # of a pooler that was left out while tuning there are no changes: it keeps its weights
        if value.requires_grad and (name in changes or not name.startswith("pooler."))
    }
    if learning.keys() != changes.keys():
        differing = sorted(learning.keys() ^ changes.keys())
        raise BertVisionError(
            f"the saved changes do not fit {encoder.name} with --learn {learn.word}: {len(differing)} names differ, "
            f"first '{differing[0]}'. Is it the encoder that was tuned?"
        )
    for name, value in learning.items():
        if value.shape != changes[name].shape:
            raise BertVisionError(f"'{name}' has shape {tuple(changes[name].shape)}, {tuple(value.shape)} is expected.")
        value.data.copy_(changes[name])


def freeze(encoder: Encoder) -> None:
    """Merge low-rank changes, turn off gradients and dropout."""
    merge_lora(encoder)
    encoder.model.requires_grad_(requires_grad=False)
    encoder.eval()
