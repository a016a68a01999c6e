"""`bertvision params`: how many parameters there are and how many learn, without weights."""

from dataclasses import dataclass

from bertvision.cli.output import print_json, print_table
from bertvision.errors import UnknownNameError
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.load import TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision params`."""

    encoder: str = BUILTIN_ENCODER
    """'minilm', a local folder, a name on the hub, or a config.json."""

    learn: str = "full"
    """What learns: full, top:K, top:K:strict, houlsby:D, houlsby:D+full, lora:R, bitfit, layernorm or none."""

    task: str = "squad2"
    """Whose output is counted with it."""

    json: bool = False
    """Print JSON."""


def run(options: Options) -> int:
    """Count."""
    from bertvision.encoder.learn import apply_learn, parse_learn  # noqa: PLC0415 - imports torch
    from bertvision.encoder.load import build_encoder  # noqa: PLC0415
    from bertvision.heads import HeadShape, build_head  # noqa: PLC0415

    if options.task not in TASKS:
        raise UnknownNameError("task", options.task, TASKS)
    learn = parse_learn(options.learn)
    encoder = build_encoder(options.encoder)
    apply_learn(encoder, learn)
    shape = HeadShape(layers=encoder.depth + 1, width=encoder.width, outputs=TASKS[options.task].outputs)
    head = sum(value.numel() for value in build_head("last_layer", shape).parameters())
    values = list(encoder.model.parameters())
    total = head + sum(value.numel() for value in values)
    trainable = head + sum(value.numel() for value in values if value.requires_grad)
    if options.json:
        print_json({"total": total, "trainable": trainable})
        return 0
    rows = [
        ["total", total, 1.0],
        ["trainable", trainable, trainable / total],
        ["of these in the output", head, head / total],
    ]
    print_table(f"{options.encoder}, --learn {options.learn}, {options.task}", ["parameters", "number", "share"], rows)
    return 0
