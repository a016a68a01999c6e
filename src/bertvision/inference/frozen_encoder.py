"""How an encoder that learns nothing is loaded and run, as precisely as is asked for."""

import torch

from bertvision.device import Device, Dtype, choose_device
from bertvision.encoder.batch import MULTIPLE
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import load_encoder
from bertvision.inference.outputs import PassOptions


def load_frozen(name: str, *, device: Device | torch.device, dtype: Dtype) -> Encoder:
    """An encoder for a pass that learns nothing, its weights as precise as it computes.

    Raises:
        BertVisionError: there is no such encoder, or no such device.
    """
    place = device if isinstance(device, torch.device) else choose_device(device)
    return load_encoder(name, device=place, precision="bfloat16" if in_bfloat16(dtype, place) else "float32")


def frozen_passes(encoder: Encoder, *, dtype: Dtype) -> PassOptions:
    """How an encoder that `load_frozen` gave is run: packed where that computes in bfloat16 on a GPU."""
    gpu = encoder.device.type == "cuda"
    bf16 = in_bfloat16(dtype, encoder.device)
    return PassOptions(
        packed=gpu and bf16 and encoder.can_pack,
        pad=int(encoder.config.pad_token_id or 0),
        bf16=bf16,
        # a convolution takes up to a second to plan for a new length: half as many lengths as where encoders learn
        multiple=2 * MULTIPLE if gpu else 1,
    )


def in_bfloat16(dtype: Dtype, device: torch.device) -> bool:
    """Whether to compute in bfloat16: where it is asked for, and on a GPU unless something else is."""
    return dtype == "bfloat16" or (dtype == "auto" and device.type == "cuda")
