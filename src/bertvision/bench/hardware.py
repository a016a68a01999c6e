"""HARDWARE: speeds of machines for the cost model, measured or assumed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NODE = 8
"""Devices of one machine; machines are connected by a slower network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Speeds of one device, and of the links between several.

    Attributes:
        name: the device, in words.
        peak: operations per second in products of large matrices.
        utilisation: share of the peak that a frozen pass over all layers reaches, with all other work in it.
        update: seconds per step and trained parameter of gradient clipping and AdamW.
        draw: seconds per element of dropout; 0 where it takes no time of its own.
        touch: seconds per number that adapters or LoRA read or write; they are memory-bound.
        step_per_layer: seconds per training step and layer in which the device waits for the CPU to launch kernels.
        inside: bytes per second between two devices of a machine.
        between: bytes per second between machines.
        disk: bytes per second that a machine reads from its disks or writes to them.
        heads: seconds of a training step of each head, per number in the states that it reads.
    """

    name: str
    peak: float
    utilisation: float
    update: float
    draw: float = 0.0
    touch: float = 0.0
    step_per_layer: float = 0.0
    inside: float = 450e9
    between: float = 50e9
    disk: float = 2e9
    heads: Mapping[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Operations per second of a frozen pass."""
        return self.peak * self.utilisation

    def link(self, gpus: int) -> float:
        """Bytes per second of the slowest link in a ring of GPUs."""
        return self.inside if gpus <= NODE else self.between

    def disks(self, gpus: int) -> float:
        """Bytes per second of the disks of all machines together."""
        return self.disk * -(-gpus // NODE)


_PICOSECONDS: dict[str, tuple[float, float]] = {
    "last_layer": (15.8, 678),
    "pooled_output": (4250, 100000),
    "layer_mix": (3.27, 1020),
    "layer_mix_sparse": (4.72, 1110),
    "layer_mean": (2.48, 1040),
    "adapter_pool": (11.3, 10800),
    "adapter_pool_skip": (12.6, 10600),
    "adapter_pool_own": (11.2, 19300),
    "adapter_pool_own_skip": (12.7, 15400),
    "adapter_pool_64": (4.78, 2080),
    "adapter_pool_64_skip": (5.92, 2750),
    "adapter_pool_64_own": (5.03, 3880),
    "adapter_pool_64_own_skip": (6.29, 4980),
    "adapter_pool_mix": (18.8, 16400),
    "pooled_adapter": (7.73, 4630),
    "mean_adapter": (5.3, 1370),
    "conv": (169, 60600),
    "conv_plain": (162, 40900),
    "conv_dilated": (227, 79900),
    "pooled_conv": (183, 87600),
    "mean_conv": (167, 94600),
    "pooled_adapter_conv": (116, 56700),
    "pooled_adapter_ngram": (312, 82200),
    "pooled_adapter_inception": (908, 1_650_000),
    "pooled_adapter_xception": (1090, 1_390_000),
    "xception": (8010, 640000),
    "xception_skip": (8080, 876000),
    "xception_full": (52300, 3_720_000),
    "layer_weights": (3.27, 1090),
    "dot_attention": (3.08, 1060),
    "weighted_attention": (4.35, 1340),
    "encoder_attention": (46.5, 48500),
    "context_conv": (209, 144000),
    "context_conv_simple": (421, 669000),
    "dense_stack": (236, 151000),
    "layer_concat": (3.36, 1110),
    "ladder": (164, 16200),
    "recurrent": (41.3, 11800),
}
"""Picoseconds of a training step of every head, per number in the states that it reads, on the GPU and the CPU below;
measured on 16 windows of 192 tokens."""

HARDWARE = {
    "h200": Hardware(
        name="one NVIDIA H200, bfloat16, windows packed end to end",
        peak=790e12,
        utilisation=0.604,
        update=40 / 4.8e12,  # 40 bytes to and from memory: gradient, weight, two moments; 4.8 TB/s by the data sheet
        touch=2 / 4.8e12,
        step_per_layer=0.00244,  # from 836 windows a second at batch 128, where products and updates explain 1,387
        heads={name: seconds[0] * 1e-12 for name, seconds in _PICOSECONDS.items()},
    ),
    "cpu": Hardware(
        name="two cores of an Intel Xeon at 2.8 GHz, float32",
        peak=358e9,  # 2 cores × 2 units × 16 numbers × 2 operations × 2.8 GHz
        utilisation=0.427,
        update=6.32e-9,
        draw=1.05e-8,
        touch=2.93e-10,
        heads={name: seconds[1] * 1e-12 for name, seconds in _PICOSECONDS.items()},
    ),
}
"""Machines by the value of `--hardware`. A number is measured if docs/scale.md names its record, else it is assumed."""
