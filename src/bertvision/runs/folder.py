"""A run's folder: config.json at the beginning, metrics.jsonl and snapshots on the way, result.json at the end."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertvision.atomic import write_json, write_text
from bertvision.errors import BertVisionError
from bertvision.places import encoder_from_here, made_in, path_from_here
from bertvision.provenance import provenance
from bertvision.tasks.files import read_json

FORMAT = 2
"""Of config.json and result.json. Runs of format 1 held other questions out (see `FEWEST_ARTICLES`): heads of today
would be judged by what their encoders learned from."""

CONFIG, METRICS, RESULT = "config.json", "metrics.jsonl", "result.json"


class RunFolder:
    """Where a run keeps what it was asked for and what came out.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self, request: Mapping[str, object], *, resume: bool) -> None:
        """See whether a run can begin here, or go on; writes nothing.

        Raises:
            BertVisionError: the folder holds a run and `resume` is not set, or one that was asked for something else,
                or other files.
        """
        before = self._config()
        if before is not None and not resume:
            then = "It is finished. Use" if self.result() is not None else "Go on with it: --resume. Or use"
            raise BertVisionError(f"{self.path} holds a run already. {then} another --out.")
        if before is not None:
            self._compare(before["request"], request)
        elif self.path.exists() and (not self.path.is_dir() or any(self.path.glob("[!.]*"))):
            raise BertVisionError(f"{self.path} is there already and is no run. Use another --out.")

    def begin(
        self,
        request: Mapping[str, object],
        weights: str,
        *,
        teacher: str | None = None,
        examples: str | None = None,
        held_out: str | None = None,
    ) -> None:
        """Write down what was asked for, of which weights; or see that a run goes on with the same.

        Args:
            request: what was asked for.
            weights: fingerprint of the encoder, or of all encoders.
            teacher: fingerprint of a teacher; None has none.
            examples: digest of what is learned and held out; None is not compared.
            held_out: digest of what is held out, for `check_held_out`; None is not compared.

        Raises:
            BertVisionError: it was asked for something else, or encoder or data have changed, or it cannot be written.
        """
        before = self._config()
        if before is None:
            content = {"format": FORMAT, "request": request, "weights": weights}
            content["made_in"] = made_in(self.path)
            content |= {} if teacher is None else {"teacher": teacher}
            content |= {} if examples is None else {"examples": examples}
            content |= {} if held_out is None else {"held_out": held_out}
            write_json(self.path / CONFIG, content | {"provenance": provenance()})
            return
        self._compare(before["request"], request)
        for what, was, now in (
            ("an encoder", before["weights"], weights),
            ("a teacher", before.get("teacher"), teacher),
        ):
            if was != now:
                raise BertVisionError(
                    f"{self.path} began with {what} with fingerprint {was}; the one here has {now}. "
                    "Use the same weights, or another --out."
                )
        if examples is not None and before.get("examples", examples) != examples:
            raise BertVisionError(
                f"{self.path} began with other training examples: the data have changed since, and what is held out "
                "now may have been learned before. Put the old data back, or use another --out."
            )

    def check_held_out(self, digest: str) -> None:
        """See that what is held out now is what the run in this folder held out.

        Raises:
            BertVisionError: the data have changed since, or it holds no run.
        """
        if self._begun().get("held_out", digest) != digest:  # runs from before do not tell
            raise BertVisionError(
                f"{self.path} held out other training examples than its data have now: they have changed since, and "
                "models would be judged by what they learned. Put the old data back, or make the run again with "
                "another --out."
            )

    def path_from_here(self, asked: str) -> str:
        """A relative path that the run was asked for, as it is seen from here.

        Raises:
            BertVisionError: the folder holds no run.
        """
        return path_from_here(asked, self.path, self._begun().get("made_in"))

    def encoder_from_here(self, asked: str) -> str:
        """The encoder that the run was asked for, as it is seen from here.

        Raises:
            BertVisionError: the folder holds no run.
        """
        return encoder_from_here(asked, self.path, self._begun().get("made_in"))

    def finish(self, result: Mapping[str, object]) -> None:
        """Write down what came out, which also says that the run is finished.

        Raises:
            BertVisionError: it cannot be written.
        """
        write_json(self.path / RESULT, {"format": FORMAT, **result})

    def request(self) -> dict[str, Any]:
        """What the run in this folder was asked for.

        Raises:
            BertVisionError: it holds no run.
        """
        request: dict[str, Any] = self._begun()["request"]
        return request

    def weights(self) -> str:
        """Fingerprint of the encoder, or of all encoders, that the run in this folder began with.

        Raises:
            BertVisionError: it holds no run.
        """
        return str(self._begun()["weights"])

    def _begun(self) -> dict[str, Any]:
        config = self._config()
        if config is None:
            raise BertVisionError(f"{self.path} holds no run: {CONFIG} is not there, or says nothing.")
        return config

    def result(self) -> dict[str, Any] | None:
        """What came out; None if the run is not finished."""
        path = self.path / RESULT
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def _config(self) -> dict[str, Any] | None:
        """The config of the run in this folder; None if it holds none."""
        path = self.path / CONFIG
        content = read_json(path) if path.is_file() else None
        if not isinstance(content, dict) or "request" not in content:
            return None
        if content["format"] != FORMAT:
            raise BertVisionError(
                f"{path} has format {content['format']}, {FORMAT} is expected. Make the run again, with another --out."
            )
        return content

    def _compare(self, before: Mapping[str, object], request: Mapping[str, object]) -> None:
        was, now = _flat(before), _flat(json.loads(json.dumps(request)))
        differing = sorted(name for name in was | now if was.get(name) != now.get(name))
        if differing:
            listed = "; ".join(f"{name} was {was.get(name)}, is {now.get(name)}" for name in differing)
            raise BertVisionError(
                f"{self.path} was asked for something else: {listed}. Ask for the same, or use another --out."
            )

    def log(self, line: dict[str, object]) -> None:
        """Add a line to the metrics.

        Raises:
            BertVisionError: it cannot be written.
        """
        try:
            with (self.path / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise BertVisionError(f"{self.path / METRICS} cannot be written: {error.strerror}.") from None

    def forget_after(self, step: int) -> None:
        """Drop the lines of steps that will be made again, and one that was cut off."""
        kept = [line for line in self.lines() if line["step"] <= step]
        if (self.path / METRICS).exists():
            write_text(self.path / METRICS, "".join(json.dumps(line) + "\n" for line in kept))

    def lines(self) -> list[dict[str, Any]]:
        """Every whole line of the metrics."""
        path = self.path / METRICS
        if not path.exists():
            return []
        lines = []
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                break  # the kill came while it was being written
        return lines


def check_series(path: Path, *, resume: bool) -> None:
    """See whether several runs can begin in a folder, each in one of its own, or go on; writes nothing.

    Every run sees for itself whether it was asked for the same before.

    Raises:
        BertVisionError: the folder holds runs and `resume` is not set, or other files.
    """
    holds_runs = any(path.glob(f"*/{CONFIG}"))
    if holds_runs and not resume:
        raise BertVisionError(f"{path} holds runs already. Go on with them: --resume. Or use another --out.")
    if not holds_runs and path.exists() and (not path.is_dir() or any(path.glob("[!.]*"))):
        raise BertVisionError(f"{path} is there already and holds no runs. Use another --out.")


def _flat(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested values by dotted names."""
    flat: dict[str, object] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
