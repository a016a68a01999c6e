"""`bertvision plan`: whether fit should stream or store hidden states on this machine, and what each would cost."""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from bertvision.amounts import in_bytes, in_seconds, in_words
from bertvision.cli.fit import FitOptions, as_tuned, build_request
from bertvision.cli.options import GivenOptions
from bertvision.cli.output import print_json, print_lines, print_table

if TYPE_CHECKING:
    from bertvision.runs.planning.planner import FitPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision plan`."""

    fit: FitOptions

    json: bool = False
    """Print the plan as JSON."""

    given: GivenOptions = field(default_factory=GivenOptions)


def run(options: Options) -> int:
    """Plan."""
    from bertvision.runs.planning.plan_fit import plan_fit  # noqa: PLC0415 - imports torch, and help should open at once

    request = build_request(as_tuned(options.fit, options.given), source="auto")
    plan = plan_fit(request, options.fit.run)
    if options.json:
        candidates = [{**asdict(candidate), "seconds": candidate.seconds} for candidate in plan.candidates]
        print_json({**asdict(plan), "candidates": candidates})
        return 0
    heads, epochs = in_words(len(request.heads), "head"), in_words(request.epochs, "epoch")
    _print(f"{request.task}, {request.encoder}, {heads}, {epochs}", plan)
    return 0


def _print(title: str, plan: "FitPlan") -> None:
    """Print the candidates, without empty columns, and the reasons."""
    rows = [
        [
            "→" if candidate.source == plan.chosen else "",
            candidate.source.words,
            candidate.source.layers,
            *(
                in_seconds(seconds) if seconds else ""
                for seconds in (candidate.encode, candidate.write, candidate.read, candidate.heads, candidate.seconds)
            ),
            in_bytes(candidate.disk) if candidate.disk else "",
            in_bytes(candidate.memory),
            candidate.problem,
        ]
        for candidate in plan.candidates
    ]
    names = ["", "states", "layers", "encode", "write", "read", "heads", "in all", "disk", "memory", "problem"]
    used = [number for number in range(len(names)) if any(row[number] for row in rows)]
    print_table(title, [names[number] for number in used], [[row[number] for number in used] for row in rows])
    print_lines(plan.reasons)
