"""HEADS: every head by name; a name is a class with some of its options set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bertvision.heads.adapter_pool import AdapterPool
from bertvision.heads.adapter_pool_mix import AdapterPoolMix
from bertvision.heads.context_conv import ContextConv
from bertvision.heads.conv import Conv
from bertvision.heads.dense_stack import DenseStack
from bertvision.heads.dot_attention import DotAttention
from bertvision.heads.encoder_attention import EncoderAttention
from bertvision.heads.head import Head, OptionValue
from bertvision.heads.inception import Inception
from bertvision.heads.ladder import Ladder
from bertvision.heads.last_layer import LastLayer
from bertvision.heads.layer_concat import LayerConcat
from bertvision.heads.layer_mean import LayerMean
from bertvision.heads.layer_mix import LayerMix
from bertvision.heads.layer_weights import LayerWeights
from bertvision.heads.pooled_adapter import PooledAdapter
from bertvision.heads.pooled_output import PooledOutput
from bertvision.heads.recurrent import Recurrent
from bertvision.heads.weighted_attention import WeightedAttention
from bertvision.heads.xception import Xception
from bertvision.tasks.task import TaskKind

Document = Literal["000", "001", "002", "004", "ours"]
"""The source document a head comes from."""

ROWS: tuple[TaskKind, ...] = ("labels", "tags", "scores")
EVERY: tuple[TaskKind, ...] = ("spans", *ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadEntry:
    """A row of the table.

    Attributes:
        head: the class.
        summary: what it computes, in a line.
        document: where it comes from.
        options: what differs from the class's defaults.
        kinds: of tasks that it is meant for.
    """

    head: type[Head]
    summary: str
    document: Document
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    kinds: tuple[TaskKind, ...] = EVERY


def _adapter(summary: str, **options: OptionValue) -> HeadEntry:
    return HeadEntry(head=AdapterPool, summary=summary, document="000", options=options)


def _conv(summary: str, **options: OptionValue) -> HeadEntry:
    return HeadEntry(head=Conv, summary=summary, document="000", options=options)


HEADS: dict[str, HeadEntry] = {
    "last_layer": HeadEntry(head=LastLayer, summary="the last layer, projected: plain fine-tuning", document="000"),
    "pooled_output": HeadEntry(
        head=PooledOutput, summary="a dense layer of the last layer, projected: a pooler", document="ours", kinds=ROWS
    ),
    "layer_mix": HeadEntry(head=LayerMix, summary="learned pooling: a weighted sum of the layers", document="000"),
    "layer_mix_sparse": HeadEntry(
        head=LayerMix,
        summary="learned pooling with exact zeros, so that the encoder may stop early",
        document="ours",
        options={"gate": "sparsemax"},
    ),
    "layer_mean": HeadEntry(head=LayerMean, summary="average pooling: the mean of the layers", document="000"),
    "adapter_pool": _adapter("every layer through one adapter of 386"),
    "adapter_pool_skip": _adapter("… and the last layer beside them", skip=True),
    "adapter_pool_own": _adapter("every layer through its own adapter of 386", shared=False),
    "adapter_pool_own_skip": _adapter("… and the last layer beside them", shared=False, skip=True),
    "adapter_pool_64": _adapter("every layer through one adapter of 64", size=64),
    "adapter_pool_64_skip": _adapter("… and the last layer beside them", size=64, skip=True),
    "adapter_pool_64_own": _adapter("every layer through its own adapter of 64", size=64, shared=False),
    "adapter_pool_64_own_skip": _adapter("… and the last layer beside them", size=64, shared=False, skip=True),
    "adapter_pool_mix": HeadEntry(
        head=AdapterPoolMix, summary="adapter_pool_skip, and an adapted mixture of the layers", document="000"
    ),
    "pooled_adapter": HeadEntry(
        head=PooledAdapter, summary="an adapted mixture of the layers beside the last layer", document="000"
    ),
    "mean_adapter": HeadEntry(
        head=PooledAdapter,
        summary="the adapted mean of the layers beside the last layer",
        document="000",
        options={"pool": "mean"},
    ),
    "conv": _conv("1×N convolutions along the width, layers as channels"),
    "conv_plain": _conv("… without dropout", dropout=0.0),
    "conv_dilated": _conv("… dilated", dilation=2, filters=(64, 128, 160)),
    "pooled_conv": _conv("1×N convolutions of a mixture of the layers", source="mix"),
    "mean_conv": _conv("1×N convolutions of the mean of the layers", source="mean"),
    "pooled_adapter_conv": _conv("1×N convolutions of an adapted mixture", source="mix", adapter=386),
    "pooled_adapter_ngram": _conv(
        "N×N convolutions of an adapted mixture, neighbours included",
        source="mix",
        adapter=386,
        ngram=5,
        kernel=5,
        filters=(64, 128, 144),
    ),
    "pooled_adapter_inception": HeadEntry(
        head=Inception, summary="Inception of an adapted mixture, tokens kept", document="000"
    ),
    "pooled_adapter_xception": HeadEntry(
        head=Xception,
        summary="a shorter Xception of an adapted mixture, tokens kept",
        document="000",
        options={
            "source": "mix",
            "adapter": 386,
            "stem": (32, 64),
            "strides": (3, 3),
            "entry": (128, 128, 256, 256, 728, 728),
            "middle": 2,
            "exit": (728, 1024),
        },
    ),
    "xception": HeadEntry(
        head=Xception, summary="abbreviated Xception, layers as channels", document="000", kinds=ROWS
    ),
    "xception_skip": HeadEntry(
        head=Xception,
        summary="… and the last layer beside it",
        document="000",
        options={"skip": True},
        kinds=ROWS,
    ),
    "xception_full": HeadEntry(
        head=Xception,
        summary="the whole Xception, layers as channels",
        document="000",
        options={
            "stem": (32, 64),
            "entry": (128, 128, 256, 256, 728, 728),
            "middle": 8,
            "exit": (728, 1024),
            "tail": (1536, 2048),
        },
        kinds=ROWS,
    ),
    "layer_weights": HeadEntry(
        head=LayerWeights, summary="own layer weights and scale for every output", document="002"
    ),
    "dot_attention": HeadEntry(head=DotAttention, summary="every output vector attends to the layers", document="002"),
    "weighted_attention": HeadEntry(head=WeightedAttention, summary="… through one matrix", document="002"),
    "encoder_attention": HeadEntry(head=EncoderAttention, summary="… through a transformer block", document="002"),
    "context_conv": HeadEntry(
        head=ContextConv, summary="filters made from each example, through a context vector", document="001"
    ),
    "context_conv_simple": HeadEntry(
        head=ContextConv, summary="… straight from its maps", document="001", options={"vector": False}
    ),
    "dense_stack": HeadEntry(head=DenseStack, summary="four dense blocks on the last layer", document="004"),
    "layer_concat": HeadEntry(
        head=LayerConcat, summary="all layers side by side, standardised; can be solved", document="ours"
    ),
    "ladder": HeadEntry(head=Ladder, summary="a side network, one small transformer block per layer", document="ours"),
    "recurrent": HeadEntry(
        head=Recurrent, summary="a recurrent cell that reads the layers from the lowest up", document="ours"
    ),
}
"""Every head by name."""
