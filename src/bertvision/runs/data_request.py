"""DataRequest: which examples, cut into which token windows, for which encoder."""

from dataclasses import dataclass, field, fields
from typing import Any

from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.own import OwnColumns
from bertvision.tasks.windows import WindowOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRequest:
    """The fields that all requests share: data, token windows and encoder.

    Attributes:
        task: name of the task.
        data: where its files are; see `load_task`.
        columns: columns of the user's own files, for the task `own`.
        skip_bad: leave out rows that cannot be read.
        windows: length and stride of token windows.
        encoder: name or folder of the encoder; see `load_encoder`.
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
        """The fields of this class alone, without those of subclasses: to build another kind of request."""
        return {item.name: getattr(self, item.name) for item in fields(DataRequest)}
