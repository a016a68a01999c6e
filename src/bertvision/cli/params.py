"""`bertvision params`: count total and trainable parameters, without loading weights."""

from dataclasses import dataclass, field

from bertvision.cli.options import GivenOptions
from bertvision.cli.output import print_json, print_table
from bertvision.cli.task_options import parse_settings
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.load import TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision params`."""

    encoder: str = BUILTIN_ENCODER
    """Encoder: 'minilm', a local folder, a name on the hub, or a config.json."""

    learn: str = "full"
    """Parameters to train: full, top:K, top:K:strict, houlsby:D, houlsby:D+full, lora:R, bitfit, layernorm or none."""

    task: str = "squad2"
    """Task that sets the number of outputs of the head."""

    head: str | None = None
    """Head on top of the encoder; 'bertvision ls heads' lists them (default: last_layer). With --width and --layers it
    is counted alone."""

    set: tuple[str, ...] = ()
    """Set an option of the head, such as size=64; repeat for more."""

    width: int | None = None
    """Hidden size, to count a head without an encoder."""

    layers: int | None = None
    """Number of layers, including the embedding output, to count a head without an encoder."""

    outputs: int = 2
    """Outputs of the head per token, to count a head without an encoder."""

    json: bool = False
    """Print the numbers as JSON."""

    given: GivenOptions = field(default_factory=GivenOptions)


def run(options: Options) -> int:
    """Count."""
    if options.width is not None or options.layers is not None:
        return _count_head(options)
    return _count_encoder(options)


def _count_head(options: Options) -> int:
    """Count the parameters of a head alone."""
    from bertvision.heads import HeadShape, blank_head, count_parameters  # noqa: PLC0415 - imports torch

    if options.head is None or options.width is None or options.layers is None:
        raise BertVisionError("a head is counted alone with --head, --width and --layers, all three.")
    unused = sorted({"encoder", "learn", "task"} & options.given)
    if unused:
        raise BertVisionError(
            f"--{unused[0]} says nothing when a head is counted alone; leave out --width and --layers."
        )
    if min(options.width, options.layers, options.outputs) < 1:
        raise BertVisionError(
            f"--width is {options.width}, --layers {options.layers} and --outputs {options.outputs}, "
            "at least 1 of each is expected."
        )
    shape = HeadShape(layers=options.layers, width=options.width, outputs=options.outputs)
    head = blank_head(options.head, shape, parse_settings(options.set))
    parameters = count_parameters(head)
    if options.json:
        print_json({"parameters": parameters})
        return 0
    trainable = sum(value.numel() for value in head.parameters())
    rows = [["parameters", parameters], ["of these learned by gradient", trainable]]
    print_table(f"{options.head} for {shape}", ["what", "number"], rows)
    return 0


def _count_encoder(options: Options) -> int:
    """Count the parameters of an encoder with a head."""
    from bertvision.encoder.learn import apply_learn, parse_learn  # noqa: PLC0415
    from bertvision.encoder.load import build_encoder  # noqa: PLC0415
    from bertvision.heads import HeadShape, blank_head, count_parameters  # noqa: PLC0415

    if "outputs" in options.given:
        raise BertVisionError("--outputs is for a head that is counted alone; here --task says how many there are.")
    if options.task not in TASKS:
        raise UnknownNameError("task", options.task, TASKS)
    learn = parse_learn(options.learn)
    encoder = build_encoder(options.encoder)
    apply_learn(encoder, learn)
    shape = HeadShape(layers=encoder.depth + 1, width=encoder.width, outputs=TASKS[options.task].outputs)
    blank = blank_head(options.head or "last_layer", shape, parse_settings(options.set))
    head = sum(value.numel() for value in blank.parameters())
    values = list(encoder.model.parameters())
    total = count_parameters(blank) + sum(value.numel() for value in values)
    trainable = head + sum(value.numel() for value in values if value.requires_grad)
    if options.json:
        print_json({"total": total, "trainable": trainable})
        return 0
    rows = [
        ["total", total, 1.0],
        ["trainable", trainable, trainable / total],
        ["of these in the head", head, head / total],
    ]
    print_table(f"{options.encoder}, --learn {options.learn}, {options.task}", ["parameters", "number", "share"], rows)
    return 0
