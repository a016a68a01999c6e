"""The folder of an evaluation is written by one process at a time."""

import threading
from pathlib import Path
from typing import Any, cast

from bertvision.runs.judging.evaluation_files import write_folder
from two_at_once import while_writing

JUDGE = cast("Any", None)  # nothing is judged where there is no model


def test_two_evaluations_of_one_run_are_written_one_after_the_other(tmp_path: Path) -> None:
    folder, others = tmp_path / "run" / "evaluation" / "dev", list[threading.Thread]()

    def save_second(part: Path) -> None:
        (part / "record.json").write_text("second", encoding="utf-8")

    def save_first(part: Path) -> None:
        others.append(while_writing(lambda: write_folder(folder, JUDGE, {}, {}, save_second)))
        (part / "record.json").write_text("first", encoding="utf-8")

    write_folder(folder, JUDGE, {}, {}, save_first)
    others[0].join()
    assert (folder / "record.json").read_text(encoding="utf-8") == "second"
    assert [path.name for path in folder.parent.iterdir()] == ["dev"]
