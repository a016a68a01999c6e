"""`bertvision cost`: estimate time, bytes and dollars for work of any size on any number of GPUs; runs nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Literal

from bertvision.cli.options import GivenOptions
from bertvision.cli.output import print_json, print_lines, print_table
from bertvision.cli.task_options import parse_numbers
from bertvision.errors import BertVisionError
from bertvision.pretrained import BUILTIN_ENCODER

if TYPE_CHECKING:
    from bertvision.bench.estimate import CostEstimate, Work
    from bertvision.bench.hardware import Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Hardware and prices."""

    hardware: Literal["h200", "cpu"] = "h200"
    """Machine whose measured speed is used: one NVIDIA H200, or two cores of a Xeon; the options below override it."""

    gpus: str = "1,8,64"
    """Number of GPUs; several numbers, separated by commas, are estimated side by side."""

    peak: float | None = None
    """Peak speed of large matrix products, in TFLOP/s (default: that of --hardware)."""

    utilisation: float | None = None
    """Share of the peak that a pass of a frozen encoder reaches (default: as measured)."""

    link: float | None = None
    """Bandwidth between GPUs in GB/s, within and between machines (default: 450 within 8 GPUs, 50 between machines)."""

    disk: float | None = None
    """Disk bandwidth in GB/s for every 8 GPUs (default: 2)."""

    price: float = 2.5
    """Price of a GPU in dollars per hour."""

    storage_price: float = 0.02
    """Price of disk space in dollars per GB and month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision cost`."""

    encoder: str = BUILTIN_ENCODER
    """Encoder: 'minilm', a local folder, a name on the hub, or a config.json."""

    task: Literal["squad2"] = "squad2"
    """Data set whose windows are counted: the official train set of SQuAD 2.0, 384 tokens, stride 128. For others, use
    --passages."""

    passages: int | None = None
    """Number of windows, instead of those of the task."""

    lengths: str | None = None
    """Lengths of the --passages in tokens: a file with the lengths of a sample, or their mean (default: SQuAD's)."""

    learn: str = "full"
    """Parameters to train: full, top:K, top:K:strict, houlsby:D, houlsby:D+full, lora:R, bitfit, layernorm or none."""

    heads: str = ""
    """Heads to train in one pass: names separated by commas, 'all', or a TOML file (default: none)."""

    epochs: float = 1.0
    """Epochs, of tuning and of training heads."""

    batch: int = 256
    """Batch size of tuning: windows per step on each GPU."""

    keep: Literal["fp16", "int8"] = "fp16"
    """Number format of the states in a store."""

    machine: Machine = field(default_factory=Machine)

    json: bool = False
    """Print the estimate as JSON."""

    given: GivenOptions = field(default_factory=GivenOptions)


def run(options: Options) -> int:
    """Estimate."""
    from bertvision.bench.estimate import assumptions, estimate  # noqa: PLC0415 - imports torch

    _check(options)
    gpus = _parse_gpus(options.machine.gpus)
    hardware = _hardware(options.machine)
    work = _work(options)
    cost = estimate(work, hardware, gpus)
    listed = assumptions(work, hardware)
    if options.json:
        print_json(_as_json(cost, listed, options.machine))
        return 0
    _print(options, cost, listed, hardware)
    return 0


def _check(options: Options) -> None:
    """Refuse options that contradict each other, and values out of range."""
    if options.passages is not None and "task" in options.given:
        raise BertVisionError("--task and --passages both say how many windows there are; use one of them.")
    if options.lengths is not None and options.passages is None:
        raise BertVisionError("--lengths is about --passages; the lengths of a task's windows are known.")
    machine = options.machine
    minima = {
        "passages": (options.passages, 1),
        "batch": (options.batch, 1),
        "price": (machine.price, 0),
        "storage-price": (machine.storage_price, 0),
    }
    positive = {
        "epochs": options.epochs,
        "peak": machine.peak,
        "utilisation": machine.utilisation,
        "link": machine.link,
        "disk": machine.disk,
    }
    for name, value in [*((name, value) for name, (value, _) in minima.items()), *positive.items()]:
        if value is not None and not isfinite(value):
            raise BertVisionError(f"--{name} is {value:g}, a finite number is expected.")
    for name, (value, minimum) in minima.items():
        if value is not None and value < minimum:
            raise BertVisionError(f"--{name} is {value:g}, at least {minimum} is expected.")
    for name, value in positive.items():
        if value is not None and value <= 0:
            raise BertVisionError(f"--{name} is {value:g}, more than 0 is expected.")
    if machine.utilisation is not None and machine.utilisation > 1:
        raise BertVisionError(f"--utilisation is {machine.utilisation:g}, a share of at most 1 is expected.")


def _parse_gpus(words: str) -> list[int]:
    numbers = parse_numbers("--gpus", words)
    if not numbers or any(number < 1 or not number.is_integer() for number in numbers):
        raise BertVisionError(f"--gpus is '{words}', whole numbers such as 1,8,64 are expected.")
    return [int(number) for number in numbers]


def _hardware(machine: Machine) -> "Hardware":
    """The named hardware, with the options that override its values, in SI units."""
    from bertvision.bench.hardware import HARDWARE  # noqa: PLC0415

    hardware = HARDWARE[machine.hardware]
    if machine.peak is not None:
        hardware = replace(hardware, peak=machine.peak * 1e12)
    if machine.utilisation is not None:
        hardware = replace(hardware, utilisation=machine.utilisation)
    if machine.link is not None:
        hardware = replace(hardware, inside=machine.link * 1e9, between=machine.link * 1e9)
    if machine.disk is not None:
        hardware = replace(hardware, disk=machine.disk * 1e9)
    return hardware


def _work(options: Options) -> "Work":
    """The work that the options describe; counts parameters without loading weights."""
    from bertvision.bench.cost import learning_of, shape_of  # noqa: PLC0415
    from bertvision.bench.estimate import Work  # noqa: PLC0415
    from bertvision.bench.lengths import SQUAD_WINDOWS, parse_lengths, squad_lengths  # noqa: PLC0415
    from bertvision.encoder.learn import apply_learn, parse_learn  # noqa: PLC0415
    from bertvision.encoder.load import build_encoder, drop_pooler  # noqa: PLC0415
    from bertvision.heads import HeadShape, blank_head  # noqa: PLC0415
    from bertvision.runs.fitting.head_specs import parse_heads  # noqa: PLC0415
    from bertvision.training.trainee import HeadSpec  # noqa: PLC0415

    learn = parse_learn(options.learn)
    encoder = build_encoder(options.encoder)
    drop_pooler(encoder.model)  # as tuning does
    shape = shape_of(encoder.config)
    apply_learn(encoder, learn)
    head_shape = HeadShape(layers=encoder.depth + 1, width=encoder.width, outputs=2)
    output = sum(value.numel() for value in blank_head("last_layer", head_shape).parameters())
    parameters = output + sum(value.numel() for value in encoder.parameters() if value.requires_grad)
    specs = parse_heads(options.heads, "spans", HeadSpec(head="last_layer")) if options.heads else []
    return Work(
        shape=shape,
        sample=squad_lengths() if options.lengths is None else parse_lengths(options.lengths),
        windows=SQUAD_WINDOWS if options.passages is None else options.passages,
        keep=options.keep,
        learning=None if options.learn == "none" else learning_of(learn, shape, parameters),
        learn=options.learn,
        heads=[
            (spec.head, len(blank_head(spec.head, head_shape, spec.options).reads) * encoder.width) for spec in specs
        ],
        epochs=options.epochs,
        batch=options.batch,
    )


def _as_json(cost: "CostEstimate", listed: Sequence[str], machine: Machine) -> dict[str, object]:
    rows = [{**asdict(row), "gpu_hours": row.gpu_hours, "dollars": row.gpu_hours * machine.price} for row in cost.rows]
    return {**asdict(cost), "rows": rows, "assumptions": listed}


def _print(options: Options, cost: "CostEstimate", listed: Sequence[str], hardware: "Hardware") -> None:
    from bertvision.amounts import in_bytes, in_seconds  # noqa: PLC0415

    machine = options.machine
    rows = [
        [
            row.what,
            row.gpus,
            in_seconds(row.seconds),
            row.gpu_hours,
            row.gpu_hours * machine.price,
            f"{row.waiting:.1%}",
        ]
        for row in cost.rows
    ]
    title = f"{options.encoder}, {cost.windows:,} windows, {cost.tokens:,} tokens, {cost.operations:.3g} operations"
    print_table(title, ["what", "GPUs", "time", "GPU-hours", "dollars", "waiting"], rows)
    stored = [
        [kept, in_bytes(size), size / 1e9 * machine.storage_price, in_seconds(size / hardware.disk)]
        for kept, size in cost.bytes.items()
    ]
    columns = ["states of all layers", "on disk", "dollars a month", "to read once, 8 GPUs or fewer"]
    print_table("If they were kept", columns, stored)
    print_lines(listed)
