"""Data sets from the Hugging Face hub, through `datasets`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from bertvision.errors import DataError, MissingExtraError, first_line
from bertvision.tasks.examples import Examples
from bertvision.tasks.files import BadRow
from bertvision.tasks.sources import describe_files
from bertvision.tasks.squad import QuestionsBuilder
from bertvision.tasks.tables import Table
from bertvision.tasks.task import HubSource, SquadLayout, TableLayout, Task
from bertvision.tasks.texts import texts_from_table


def read_hub(task: Task, path: str | None) -> dict[str, tuple[Examples, list[BadRow]]]:
    """Download or load from the cache every split of a task, with the rows that could not be read.

    Args:
        task: the task.
        path: another data set with the same columns (a hub name or a local folder); None takes the task's own.

    Raises:
        MissingExtraError: the package `datasets` is not installed.
        DataError: the task has no data set on the hub, it cannot be loaded (the message says which files to put where
            instead), or it lacks the expected splits or columns.
    """
    source = task.hub
    if source is None:
        raise DataError(
            f"the hub has no data set for {task.name}. Put the files there yourself: {describe_files(task)}"
        )
    if path is not None:
        source = replace(source, path=path, name=None)
    content = _load(task, source)
    read = {}
    for split, hub_split in source.splits.items():
        if hub_split in content:
            where = Path(f"{source.path}/{hub_split}")
            match task.layout:
                case SquadLayout():
                    read[split] = _questions(where, content[hub_split], task.layout)
                case TableLayout():
                    read[split] = _texts(where, content[hub_split], task, source)
    if not read:
        raise DataError(
            f"{source.path} has the splits {', '.join(content)}; expected {', '.join(source.splits.values())}."
        )
    return read


def _load(task: Task, source: HubSource) -> Mapping[str, Iterable[Mapping[str, object]]]:
    try:
        import datasets  # noqa: PLC0415 - an optional dependency, for the hub only
    except ImportError:
        raise MissingExtraError(f"reading {task.name} from the hub", "datasets", "data") from None
    try:
        content: Mapping[str, Iterable[Mapping[str, object]]] = datasets.load_dataset(source.path, source.name)
    except Exception as error:  # noqa: BLE001 - the hub's client raises many types, and all mean "not available"
        raise DataError(
            f"{source.path} cannot be had from the hub ({first_line(error)}).\n"
            f"Offline, put the files there yourself: {describe_files(task)}"
        ) from None
    return content


def _questions(where: Path, rows: Iterable[Mapping[str, object]], layout: SquadLayout) -> tuple[Examples, list[BadRow]]:
    builder = QuestionsBuilder(answerable_only=layout.answerable_only)
    for number, row in enumerate(rows):
        match row:
            case {"context": str(context), "answers": {"text": [*texts], "answer_start": [*starts]}}:
                answers = [{"text": t, "answer_start": s} for t, s in zip_longest(texts, starts)]
                builder.add(f"{where}:{number}", str(row.get("title", "")), context, {**row, "answers": answers})
            case _:
                builder.bad.append(BadRow(f"{where}:{number}", "a row with 'context' and 'answers' is expected"))
    return builder.build(), builder.bad


def _texts(
    where: Path, rows: Iterable[Mapping[str, object]], task: Task, source: HubSource
) -> tuple[Examples, list[BadRow]]:
    names = [source.text, source.label] if source.pair is None else [source.text, source.label, source.pair]
    cells: list[tuple[int, Sequence[object]]] = []
    for number, row in enumerate(rows):
        absent = [name for name in names if name not in row]
        if absent:
            raise DataError(f"{where} has the columns {', '.join(row)}; '{absent[0]}' is expected.")
        label = row[source.label]
        # the hub stores labels as class numbers, in the same order as `task.labels`
        if task.kind == "labels" and isinstance(label, int) and 0 <= label < len(task.labels):
            label = task.labels[label]
        cells.append((number, [row[source.text], label, *([row[source.pair]] if source.pair else [])]))
    layout = TableLayout(text=source.text, label=source.label, pair=source.pair)
    return texts_from_table(task, layout, Table(where, tuple(names), cells, []))
