"""The real server in a process of its own, and requests to it."""

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 60.0


@dataclass(frozen=True)
class Served:
    """A server that listens, and where its log goes."""

    process: "subprocess.Popen[str]"
    address: str
    log: Path

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON of a reply."""
        port = int(self.address.rstrip("/").rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            given = {"content-type": "application/json"} | dict(headers or {})
            connection.request("POST", path, json.dumps(body), given)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def lines(self) -> list[dict[str, Any]]:
        """What it logged, without the notes of the command."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@contextmanager
def served(folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run `bertvision serve` on a free port until the block ends; it must leave with exit code 0."""
    log = folder / "serve.log"
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bertvision", "serve", "--port", "0", "--device", "cpu", *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, f"{line}{log.read_text(encoding='utf-8')}"
            yield Served(process, found[0], log)
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            process.communicate()
