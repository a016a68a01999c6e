"""A run's folder: config.json at the beginning, metrics.jsonl and snapshots on the way, result.json at the end."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertvision.atomic import reason_of, write_json, write_text
from bertvision.errors import BertVisionError, WriteError
from bertvision.places import encoder_from_here, made_in, path_from_here
from bertvision.provenance import provenance
from bertvision.tasks.files import read_json

FORMAT = 2
"""Version of config.json and result.json. Runs of format 1 held out other questions (see `FEWEST_ARTICLES`): heads that
are fitted today would be judged on questions that those encoders were trained on."""

CONFIG, METRICS, RESULT = "config.json", "metrics.jsonl", "result.json"


class RunFolder:
    """The files of a run: request, log and result.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self, request: Mapping[str, object], *, resume: bool) -> None:
        """Check that a run can begin in this folder, or be resumed; writes nothing.

        Raises:
            BertVisionError: the folder holds a run and `resume` is not set, or a run with another request or of another
                format, or other files.
        """
        config = self._config()
        if config is not None and not resume:
            then = "It is finished. Use" if self.result() is not None else "Go on with it: --resume. Or use"
            raise BertVisionError(f"{self.path} holds a run already. {then} another --out.")
        if config is not None:
            self._check_request(config["request"], request)
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
        """Write config.json; or, if the run is resumed, check that request, encoder, teacher and data are the same.

        Args:
            request: the request of the run.
            weights: fingerprint of the encoder; of a cross-fit, those of all its encoders.
            teacher: fingerprint of the teacher; None if there is none.
            examples: digest of the training and held-out examples (see `examples_digest`); None is not compared.
            held_out: digest of the held-out examples, for `check_held_out`; None is not compared.

        Raises:
            BertVisionError: one of them differs from that of the run in the folder, or config.json cannot be written.
        """
        config = self._config()
        if config is None:
            content = {"format": FORMAT, "request": request, "weights": weights}
            content["made_in"] = made_in(self.path)
            content |= {} if teacher is None else {"teacher": teacher}
            content |= {} if examples is None else {"examples": examples}
            content |= {} if held_out is None else {"held_out": held_out}
            write_json(self.path / CONFIG, content | {"provenance": provenance()})
            return
        self._check_request(config["request"], request)
        for what, was, now in (
            ("an encoder", config["weights"], weights),
            ("a teacher", config.get("teacher"), teacher),
        ):
            if was != now:
                raise BertVisionError(
                    f"{self.path} began with {what} with fingerprint {was}; the one here has {now}. "
                    "Use the same weights, or another --out."
                )
        if examples is not None and config.get("examples", examples) != examples:
            raise BertVisionError(
                f"{self.path} began with other training examples: the data have changed since, and what is held out "
                "now may have been learned before. Put the old data back, or use another --out."
            )
        self.forget_after(math.inf)  # the next line must not be written behind one that was cut off

    def check_held_out(self, digest: str) -> None:
        """See that what is held out now is what the run in this folder held out.

        Raises:
            BertVisionError: the data have changed since, or it holds no run.
        """
        if self._required_config().get("held_out", digest) != digest:  # runs from before do not tell
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
        return path_from_here(asked, self.path, self._required_config().get("made_in"))

    def encoder_from_here(self, asked: str) -> str:
        """The encoder that the run was asked for, as it is seen from here.

        Raises:
            BertVisionError: the folder holds no run.
        """
        return encoder_from_here(asked, self.path, self._required_config().get("made_in"))

    def finish(self, result: Mapping[str, object]) -> None:
        """Write result.json, which also marks the run as finished.

        Raises:
            BertVisionError: it cannot be written.
        """
        write_json(self.path / RESULT, {"format": FORMAT, **result})

    def request(self) -> dict[str, Any]:
        """The request of the run in this folder.

        Raises:
            BertVisionError: it holds no run, or one of another format.
        """
        request: dict[str, Any] = self._required_config()["request"]
        return request

    def weights(self) -> str:
        """The fingerprint of the encoder, or of all encoders, with which the run in this folder began.

        Raises:
            BertVisionError: it holds no run, or one of another format.
        """
        return str(self._required_config()["weights"])

    def _required_config(self) -> dict[str, Any]:
        config = self._config()
        if config is None:
            raise BertVisionError(f"{self.path} holds no run: {CONFIG} is not there, or says nothing.")
        return config

    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None if the run is not finished."""
        path = self.path / RESULT
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def _config(self) -> dict[str, Any] | None:
        """The content of config.json; None if there is none, or not that of a run. Another format is refused."""
        path = self.path / CONFIG
        content = read_json(path) if path.is_file() else None
        if not isinstance(content, dict) or "request" not in content:
            return None
        if content["format"] != FORMAT:
            raise BertVisionError(
                f"{path} has format {content['format']}, {FORMAT} is expected. Make the run again, with another --out."
            )
        return content

    def _check_request(self, first: Mapping[str, object], request: Mapping[str, object]) -> None:
        """Refuse a request that differs from the one with which the run began."""
        was, now = _flat(first), _flat(json.loads(json.dumps(request)))
        differing = sorted(name for name in was | now if was.get(name) != now.get(name))
        if differing:
            listed = "; ".join(f"{name} was {was.get(name)}, is {now.get(name)}" for name in differing)
            raise BertVisionError(
                f"{self.path} was asked for something else: {listed}. Ask for the same, or use another --out."
            )

    def log(self, line: dict[str, object]) -> None:
        """Append a line to metrics.jsonl.

        Raises:
            BertVisionError: it cannot be written.
        """
        try:
            with (self.path / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise WriteError(self.path / METRICS, reason_of(error), "Make room, and go on with --resume.") from None

    def forget_after(self, step: float) -> None:
        """Remove the log lines of later steps, which a resumed run repeats, and a line that a kill cut off."""
        kept = [line for line in self.lines() if line["step"] <= step]
        if (self.path / METRICS).exists():
            write_text(self.path / METRICS, "".join(json.dumps(line) + "\n" for line in kept))

    def lines(self) -> list[dict[str, Any]]:
        """Every complete line of metrics.jsonl."""
        path = self.path / METRICS
        if not path.exists():
            return []
        lines = []
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                break  # the run was killed while it wrote this line
        return lines


def check_series(path: Path, *, resume: bool) -> None:
    """Check that several runs can begin in a folder, each in a subfolder, or be resumed; writes nothing.

    Whether their requests are still the same is checked by each run.

    Raises:
        BertVisionError: the folder holds runs and `resume` is not set, or other files.
    """
    holds_runs = any(path.glob(f"*/{CONFIG}"))
    if holds_runs and not resume:
        raise BertVisionError(f"{path} holds runs already. Go on with them: --resume. Or use another --out.")
    # a run that was killed before it began leaves its folder, with a lock in it
    left = [item for item in path.glob("[!.]*") if not item.is_dir() or any(item.glob("[!.]*"))]
    if not holds_runs and (left or (path.exists() and not path.is_dir())):
        raise BertVisionError(f"{path} is there already and holds no runs. Use another --out.")


def _flat(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested dictionaries as one, with dotted names."""
    flat: dict[str, object] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
