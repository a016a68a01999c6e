"""How a frozen encoder is loaded and run: device, precision, packing."""

import torch

from bertvision.device import Device, Dtype, choose_device
from bertvision.encoder.batch import MULTIPLE
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import load_encoder
from bertvision.inference.outputs import PassOptions


def load_frozen(name: str, *, device: Device | torch.device, dtype: Dtype) -> Encoder:
    """Load an encoder for inference, with weights of the type that it computes in.

    Raises:
        BertVisionError: there is no such encoder, or no such device.
    """
    place = device if isinstance(device, torch.device) else choose_device(device)
    return load_encoder(name, device=place, precision="bfloat16" if in_bfloat16(dtype, place) else "float32")


def frozen_passes(encoder: Encoder, *, dtype: Dtype) -> PassOptions:
    """How an encoder from `load_frozen` is run; windows are packed on a GPU in bfloat16, if the encoder supports it."""
    gpu = encoder.device.type == "cuda"
    bf16 = in_bfloat16(dtype, encoder.device)
    return PassOptions(
        packed=gpu and bf16 and encoder.can_pack,
        pad=int(encoder.config.pad_token_id or 0),
        bf16=bf16,
        # twice the multiple of training, for half as many lengths: planning a convolution for one takes up to a second
        multiple=2 * MULTIPLE if gpu else 1,
    )


def in_bfloat16(dtype: Dtype, device: torch.device) -> bool:
    """Whether to compute in bfloat16: `auto` does on a GPU only."""
    return dtype == "bfloat16" or (dtype == "auto" and device.type == "cuda")
