"""DataRequest: which examples, cut into which token windows, for which encoder."""

from dataclasses import dataclass, field, fields
from typing import Any

from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.own import OwnColumns
from bertvision.tasks.windows import WindowOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRequest:
    """What every run and every store depends on.

    Attributes:
        task: a task's name.
        data: where its data are; see `load_task`.
        columns: for the task `own`.
        skip_bad: leave out rows that cannot be read.
        windows: length and stride of token windows.
        encoder: see `load_encoder`.
    """

    task: str
    data: str | None = None
    columns: OwnColumns = field(default_factory=OwnColumns)
    skip_bad: bool = False
    windows: WindowOptions = field(default_factory=WindowOptions)
    encoder: str = BUILTIN_ENCODER

    def load(self) -> TaskData:
        """The task's data.

        Raises:
            BertVisionError: as `load_task`.
        """
        return load_task(self.task, data=self.data, columns=self.columns, skip_bad=self.skip_bad)

    def data_fields(self) -> dict[str, Any]:
        """These alone, by name: for a request of another kind about the same data."""
        return {one.name: getattr(self, one.name) for one in fields(DataRequest)}
