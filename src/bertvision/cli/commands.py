"""Every command: its words, what it does, where it lives. Nothing here imports a command before it is run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command's module holds a dataclass `Options` and a function `run(options) -> int`."""

    summary: str
    module: str
    examples: tuple[str, ...]


COMMANDS = {
    "ls": Command(
        "List what there is to choose from.",
        "bertvision.cli.ls",
        ("bertvision ls tasks", "bertvision ls heads --json"),
    ),
    "data check": Command(
        "Read every row of a task's data and tell what is there: rows, labels, token windows, bad rows.",
        "bertvision.cli.data_check",
        (
            "bertvision data check squad2 --data DIR",
            "bertvision data check own --data reviews.csv --text review --label stars",
        ),
    ),
    "score": Command(
        "Score a file of predictions as the task's official script does.",
        "bertvision.cli.score",
        (
            "bertvision score squad2 dev.json predictions.json --na-prob no_answer.json",
            "bertvision score mrpc MRPC/dev.tsv predictions.tsv --bootstrap 1000 --json",
            "bertvision score squad2 dev.json ours.json --against theirs.json",
        ),
    ),
    "params": Command(
        "Count the parameters of an encoder and those that learn, or those of a head, without any weights.",
        "bertvision.cli.params",
        (
            "bertvision params --learn lora:16 --head layer_mix",
            "bertvision params --encoder config.json --learn houlsby:64 --json",
            "bertvision params --head adapter_pool --width 1024 --layers 25 --set size=64 --set skip=true",
        ),
    ),
    "tune": Command(
        "Tune an encoder for a task as much or as little as you like, with snapshots at fractions of an epoch.",
        "bertvision.cli.tune",
        (
            "bertvision tune squad2 --learn lora:16 --epochs 2 --snapshots 0.3,1",
            "bertvision tune squad2 --learn top:6 --head dot_attention",
            "bertvision tune own --data reviews/ --text review --label stars --learn top:2",
            "accelerate launch -m bertvision tune squad2 --learn full --out runs/full",
        ),
    ),
    "demo": Command(
        "Load the built-in sets, cut them into token windows and score a trivial baseline on each.",
        "bertvision.cli.demo",
        ("bertvision demo", "bertvision demo --json"),
    ),
}
