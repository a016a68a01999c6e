"""How a frozen encoder is loaded and run, for the type of numbers that the user chose."""

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
    """How to run an encoder from `load_frozen` with the same `dtype`: packed if in bfloat16 on a GPU and possible."""
    gpu = encoder.device.type == "cuda"
    bf16 = in_bfloat16(dtype, encoder.device)
    return PassOptions(
        packed=gpu and bf16 and encoder.can_pack,
        pad=int(encoder.config.pad_token_id or 0),
        bf16=bf16,
        # to plan a convolution for a new length takes up to a second: so half as many lengths as in tuning
        multiple=2 * MULTIPLE if gpu else 1,
    )


def in_bfloat16(dtype: Dtype, device: torch.device) -> bool:
    """Whether to compute in bfloat16: if `dtype` says so, or is `auto` on a GPU."""
    return dtype == "bfloat16" or (dtype == "auto" and device.type == "cuda")
