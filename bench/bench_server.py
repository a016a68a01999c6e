"""Throughput and latency (p99) with 64 clients: an exported pack, the same without batching, and a plain model.

python bench/bench_server.py                  # MiniLM on the CPU, 60 s each; --pack DIR takes another, --int8 rounds it
python bench/bench_server.py --runtime openvino-bf16   # in bfloat16, whatever the export prefers
python bench/bench_server.py --seconds 5 --rounds 1 --trial   # a quick look, without a record
"""

import argparse
import http.client
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from bertvision.bench.measure import Timing
from bertvision.bench.record import Claim
from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.heads import HeadShape, build_head
from bertvision.packs.card import PackCard
from bertvision.packs.export import export_pack
from bertvision.packs.exported import ExportedPack, Numbers
from bertvision.packs.pack import Pack, write_pack
from bertvision.packs.runtimes import ROUNDING, GraphRuntime
from bertvision.tasks.load import TASKS
from bertvision.tasks.windows import WindowOptions
from data import save, spread

CLIENTS = 64
ALONE, PLAIN = "ours, one request per pass", "plain transformers behind FastAPI, one request per pass"
TARGET = 3.0
"""Target for the speedup over the plain server, in bfloat16."""

HERE = Path(__file__).parent

PATIENCE = 300
"""Timeout of a request in seconds: on a slow machine the last of 64 clients waits long."""


def make_pack(folder: Path, encoder: str, task: str = "squad2") -> Path:
    """A pack with an untrained head, which takes as long as a trained one."""
    torch.manual_seed(0)
    loaded = load_encoder(encoder)
    asked = TASKS[task]
    head = build_head("layer_mix", HeadShape(layers=loaded.depth + 1, width=loaded.width, outputs=asked.outputs))
    card = PackCard(
        task=asked,
        encoder=encoder,
        fingerprint=fingerprint(loaded),
        learn=(),
        heads=("layer_mix",),
        reads="tokens" if asked.kind == "spans" else "rows",
        pool="mean",
        pairs="together",
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
    """Request bodies with contexts of different lengths: in turn all, half and 15 % of a context."""
    examples = spread(count)
    shares = itertools.cycle((1.0, 0.5, 0.15))
    bodies = []
    for question, context, share in zip(examples.questions, examples.context_index.tolist(), shares, strict=False):
        text = examples.contexts[context]
        bodies.append(json.dumps({"question": question, "context": text[: max(40, int(share * len(text)))]}).encode())
    return bodies


def commands(pack: Path, exported: ExportedPack) -> dict[str, list[str]]:
    """Command line of every server, by name."""
    ours = [sys.executable, "-m", "bertvision", "serve", "--port", "0", "--pack", str(exported.folder)]
    ours += ["--runtime", exported.runtime]
    ours += ["--seconds", str(PATIENCE)]
    return {
        "ours": ours,
        ALONE: [*ours, "--batch", "1", "--wait-ms", "0"],
        PLAIN: [sys.executable, str(HERE / "plain_server.py"), str(pack)],
    }


@contextmanager
def serving(command: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Within this context, a server runs in a process of its own; yields its port and process id."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603 - our own command
        try:
            if process.stdout is None:
                raise TypeError("its output is read")
            port = re.search(r":(\d+)/", process.stdout.readline())
            if port is None:
                raise RuntimeError("the server did not start")
            yield int(port[1]), process.pid
        finally:
            process.terminate()


def processor_seconds(process: int) -> float:
    """CPU seconds of a process so far, which other load on the machine does not change."""
    after_name = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, bodies: Sequence[bytes], seconds: float) -> tuple[float, list[float]]:
    """Send requests from all clients for some seconds; returns the seconds until all finished, and those of each reply.

    Raises:
        RuntimeError: a reply had another status than 200.
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
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--pack", type=Path, default=None)
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--runtime", choices=get_args(GraphRuntime), help="the one of the export if it is left out")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trial", action="store_true")
    options = parser.parse_args()
    bodies = make_bodies(960)
    with tempfile.TemporaryDirectory() as place:
        pack = options.pack or make_pack(Path(place) / "pack", options.encoder)
        numbers: Numbers = "int8" if options.int8 else "float32"
        exported = export_pack(Pack.load(pack), Path(place) / "exported", numbers=numbers)
        if options.runtime is not None:
            exported = replace(exported, runtime=options.runtime)
        servers = commands(pack, exported)
        each: dict[str, list[float]] = {name: [] for name in servers}
        late: dict[str, list[float]] = {name: [] for name in servers}
        for _, (name, command) in itertools.product(range(options.rounds), servers.items()):
            with serving(command) as (port, process):
                load(port, bodies, min(2.0, options.seconds))  # warm-up
                used = -processor_seconds(process)
                seconds, taken = load(port, bodies, options.seconds)
                used += processor_seconds(process)
            each[name].append(seconds / len(taken))
            late[name] += taken
            p50, p99 = np.quantile(taken, [0.5, 0.99])
            spent = f"{1e3 * used / len(taken):.0f} ms of the processor each"
            print(f"{name}: {len(taken) / seconds:.1f} replies/s, {spent}, p50 {p50:.2f} s, p99 {p99:.2f} s, no error")
    p99s = {name: float(np.quantile(times, 0.99)) for name, times in late.items()}
    if options.trial:
        for name, times in each.items():
            print(f"times as fast as {name}: {np.median(times) / np.median(each['ours']):.2f}")
        return
    threads = torch.get_num_threads()
    claim = Claim(
        name="speed-server-bf16" if exported.runtime in ROUNDING else "speed-server",
        what=f"serving {CLIENTS} clients, p99 {p99s['ours']:.2f} s beside {p99s[PLAIN]:.2f} s",
        command=" ".join(["python", "bench/bench_server.py", *sys.argv[1:]]),
        size=f"{options.seconds:g} s, questions with mixed lengths, {options.encoder}, {numbers}, {exported.runtime}, "
        f"{threads} threads",
        targets={PLAIN: TARGET} if exported.runtime in ROUNDING else {},
    )
    save(claim, {name: Timing(tuple(times)) for name, times in each.items()})


if __name__ == "__main__":
    main()
