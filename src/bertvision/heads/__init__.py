"""Hidden states → outputs: every head by name."""

from bertvision.heads.build import blank_head, build_head, count_parameters
from bertvision.heads.files import load_head, save_head
from bertvision.heads.head import Head, HeadOptions, HeadShape, LayerwiseHead, OptionValue, layers_read
from bertvision.heads.parts.output import OutputMap
from bertvision.heads.table import HEADS, HeadEntry

__all__ = [
    "HEADS",
    "Head",
    "HeadEntry",
    "HeadOptions",
    "HeadShape",
    "LayerwiseHead",
    "OptionValue",
    "OutputMap",
    "blank_head",
    "build_head",
    "count_parameters",
    "layers_read",
    "load_head",
    "save_head",
]
