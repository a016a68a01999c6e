"""LoRA through PEFT: low-rank changes to every linear map of the layers."""

from torch import nn

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.houlsby import HoulsbyAdapter
from bertvision.errors import BertVisionError

ADAPTER = "bertvision"
SCALE = 2
"""Factor of a low-rank change: alpha / rank in PEFT's words."""


def add_lora(encoder: Encoder, rank: int) -> None:
    """Add a low-rank change to every linear map inside the layers, but not to poolers and embedding projections.

    Raises:
        BertVisionError: the layers hold bottleneck adapters, behind which a low-rank change could not be merged.
    """
    if any(isinstance(module, HoulsbyAdapter) for module in encoder.model.modules()):
        raise BertVisionError(
            f"{encoder.name} was tuned with houlsby adapters; lora cannot be added. Use its own encoder."
        )
    from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415 - takes seconds to import

    from bertvision.encoder.low_rank import speed_up_lora  # noqa: PLC0415 - imports peft

    inside = {module for block in encoder.blocks for module in block.modules() if isinstance(module, nn.Linear)}
    names = [name for name, module in encoder.model.named_modules() if module in inside]
    config = LoraConfig(r=rank, lora_alpha=SCALE * rank, lora_dropout=0.0, target_modules=names)
    inject_adapter_in_model(config, encoder.model, adapter_name=ADAPTER)
    speed_up_lora(encoder.model)


def merge_lora(encoder: Encoder) -> None:
    """Merge every low-rank change into its linear map, so that it costs nothing more at inference."""
    from peft.tuners.lora import LoraLayer  # noqa: PLC0415

    for name, module in list(encoder.model.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(encoder.model.get_submodule(parent), child, module.get_base_layer())
    vars(encoder.model).pop("peft_config", None)  # else PEFT warns of several adapters when it is tuned again
