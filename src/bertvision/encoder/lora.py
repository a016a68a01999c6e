"""LoRA (low-rank adapters) on every linear map of the layers, through PEFT."""

from torch import nn

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.houlsby import HoulsbyAdapter
from bertvision.errors import BertVisionError

ADAPTER = "bertvision"
SCALE = 2
"""LoRA's scaling, alpha / rank."""


def add_lora(encoder: Encoder, rank: int) -> None:
    """Add LoRA to every linear map inside the layers; pooler and embedding projections have none.

    Raises:
        BertVisionError: the layers hold bottleneck adapters, into which LoRA weights could not be merged.
    """
    if any(isinstance(module, HoulsbyAdapter) for module in encoder.model.modules()):
        raise BertVisionError(
            f"{encoder.name} was tuned with houlsby adapters; lora cannot be added. Use its own encoder."
        )
    from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415 - takes seconds to import

    from bertvision.encoder.low_rank import speed_up_lora  # noqa: PLC0415 - as above

    inside = {module for block in encoder.blocks for module in block.modules() if isinstance(module, nn.Linear)}
    names = [name for name, module in encoder.model.named_modules() if module in inside]
    config = LoraConfig(r=rank, lora_alpha=SCALE * rank, lora_dropout=0.0, target_modules=names)
    inject_adapter_in_model(config, encoder.model, adapter_name=ADAPTER)
    speed_up_lora(encoder.model)


def merge_lora(encoder: Encoder) -> None:
    """Merge the LoRA weights into the linear maps, so that a frozen encoder is as fast as without them."""
    from peft.tuners.lora import LoraLayer  # noqa: PLC0415

    for name, module in list(encoder.model.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(encoder.model.get_submodule(parent), child, module.get_base_layer())
    vars(encoder.model).pop("peft_config", None)  # else PEFT warns of several adapters when it is tuned further
