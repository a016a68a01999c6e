"""What a tuned encoder changed, and nothing else: the parameters that learned, by name."""

from collections.abc import Mapping

from torch import Tensor

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import Learn, apply_learn
from bertvision.encoder.lora import merge_lora
from bertvision.errors import BertVisionError


def changed_weights(encoder: Encoder) -> dict[str, Tensor]:
    """The parameters that learn, on the CPU; megabytes for adapters, the whole encoder for `full`."""
    return {
        name: value.detach().cpu().contiguous()
        for name, value in encoder.model.named_parameters()
        if value.requires_grad
    }


def apply_changes(encoder: Encoder, learn: Learn, changes: Mapping[str, Tensor]) -> None:
    """Put changed parameters back into an encoder that is as it was before tuning.

    Raises:
        BertVisionError: the names are not those that `learn` changes in this encoder.
    """
    apply_learn(encoder, learn)
    if not encoder.can_pool:  # the encoder may have had a pooler while tuning, which is not needed now
        changes = {name: value for name, value in changes.items() if not name.startswith("pooler.")}
    learning = {
        name: value
        for name, value in encoder.model.named_parameters()
        # a pooler may have been left out while tuning, and then stays as it is
        if value.requires_grad and (name in changes or not name.startswith("pooler."))
    }
    if learning.keys() != changes.keys():
        odd = sorted(learning.keys() ^ changes.keys())
        raise BertVisionError(
            f"the saved changes do not fit {encoder.name} with --learn {learn.word}: {len(odd)} names differ, "
            f"first '{odd[0]}'. Is it the encoder that was tuned?"
        )
    for name, value in learning.items():
        if value.shape != changes[name].shape:
            raise BertVisionError(f"'{name}' has shape {tuple(changes[name].shape)}, {tuple(value.shape)} is expected.")
        value.data.copy_(changes[name])


def freeze(encoder: Encoder) -> None:
    """Merge LoRA weights, set `requires_grad` to False, and switch to evaluation mode."""
    merge_lora(encoder)
    encoder.model.requires_grad_(requires_grad=False)
    encoder.eval()
