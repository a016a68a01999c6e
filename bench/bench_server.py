"""Requests of 64 clients with mixed lengths in shared passes, against one request per pass; throughput and p99.

python bench/bench_server.py                  # MiniLM on the CPU, 60 s each
python bench/bench_server.py --seconds 5 --rounds 1 --trial   # a quick look, without a record
"""

import argparse
import http.client
import itertools
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from bertvision.bench.measure import Timing
from bertvision.bench.record import Claim
from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.heads import HeadShape, build_head
from bertvision.packs.card import PackCard
from bertvision.packs.pack import write_pack
from bertvision.tasks.load import TASKS
from bertvision.tasks.windows import WindowOptions
from data import save, spread

CLIENTS = 64
ALONE = "one request per pass"
TARGET = 3.0
SERVERS = {"ours": (), ALONE: ("--batch", "1", "--wait-ms", "0")}
"""What differs between them."""

PATIENCE = 300
"""Seconds after which a server gives up: on a slow machine the last of 64 clients waits long."""


def make_pack(folder: Path, encoder: str) -> Path:
    """A pack whose head never learnt: its answers are bad, and cost the same."""
    torch.manual_seed(0)
    loaded = load_encoder(encoder)
    head = build_head("layer_mix", HeadShape(layers=loaded.depth + 1, width=loaded.width, outputs=2))
    card = PackCard(
        task=TASKS["squad2"],
        encoder=encoder,
        fingerprint=fingerprint(loaded),
        learn=(),
        heads=("layer_mix",),
        reads="tokens",
        pool="cls",
        apart=False,
        windows=WindowOptions(length=min(384, int(loaded.config.max_position_embeddings))),
        threshold=0.0,
        scores={},
        data={},
        licence="mit",
        provenance={},
    )
    write_pack(folder, card, changes=(), heads={"layer_mix": head}, keep="float16")
    return folder


def make_bodies(count: int) -> list[bytes]:
    """Questions with contexts of many lengths: whole ones, halves and single sentences in turn."""
    examples = spread(count)
    shares = itertools.cycle((1.0, 0.5, 0.15))
    bodies = []
    for question, context, share in zip(examples.questions, examples.context_index.tolist(), shares, strict=False):
        text = examples.contexts[context]
        bodies.append(json.dumps({"question": question, "context": text[: max(40, int(share * len(text)))]}).encode())
    return bodies


@contextmanager
def serving(pack: Path, words: Sequence[str]) -> Iterator[int]:
    """The command in a process of its own; gives its port."""
    given = ["--port", "0", "--pack", str(pack), "--seconds", str(PATIENCE), *words]
    command = [sys.executable, "-m", "bertvision", "serve", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603 - our own command
        try:
            if process.stdout is None:
                raise TypeError("its output is read")
            found = re.search(r":(\d+)/", process.stdout.readline())
            if found is None:
                raise RuntimeError("the server did not start")
            yield int(found[1])
        finally:
            process.terminate()


def load(port: int, bodies: Sequence[bytes], seconds: float) -> tuple[float, list[float]]:
    """Let all clients ask for some seconds; how long it took, and the seconds of every reply.

    Raises:
        RuntimeError: a reply was none.
    """
    taken: list[float] = []
    problems: list[str] = []
    until = time.monotonic() + seconds

    def ask(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        number = first
        while time.monotonic() < until:
            begin = time.monotonic()
            connection.request("POST", "/v1/answer", bodies[number % len(bodies)], {"content-type": "application/json"})
            reply = connection.getresponse()
            content = reply.read()
            if reply.status != 200:
                problems.append(f"{reply.status}: {content[:200]!r}")
                return
            taken.append(time.monotonic() - begin)
            number += CLIENTS
        connection.close()

    begin = time.monotonic()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise RuntimeError(f"{len(problems)} clients got no answer, first: {problems[0]}")
    return time.monotonic() - begin, taken


def main() -> None:
    """Measure, and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trial", action="store_true")
    options = parser.parse_args()
    bodies = make_bodies(960)
    each: dict[str, list[float]] = {name: [] for name in SERVERS}
    late: dict[str, list[float]] = {name: [] for name in SERVERS}
    with tempfile.TemporaryDirectory() as place:
        pack = make_pack(Path(place) / "pack", options.encoder)
        for _, (name, words) in itertools.product(range(options.rounds), SERVERS.items()):
            with serving(pack, words) as port:
                load(port, bodies, min(2.0, options.seconds))  # not counted
                seconds, taken = load(port, bodies, options.seconds)
            each[name].append(seconds / len(taken))
            late[name] += taken
            p50, p99 = np.quantile(taken, [0.5, 0.99])
            print(f"{name}: {len(taken) / seconds:.1f} replies/s, p50 {p50:.2f} s, p99 {p99:.2f} s, no error")
    p99s = {name: float(np.quantile(times, 0.99)) for name, times in late.items()}
    if options.trial:
        print(f"times faster: {np.median(each[ALONE]) / np.median(each['ours']):.2f}")
        return
    threads = torch.get_num_threads()
    claim = Claim(
        name="speed-server",
        what=f"serving {CLIENTS} clients, p99 {p99s['ours']:.2f} s beside {p99s[ALONE]:.2f} s",
        command=" ".join(["python", "bench/bench_server.py", *sys.argv[1:]]),
        size=f"{options.seconds:g} s, questions with mixed lengths, {options.encoder}, threads: {threads}",
        targets={ALONE: TARGET},
    )
    save(claim, {name: Timing(tuple(times)) for name, times in each.items()})


if __name__ == "__main__":
    main()
