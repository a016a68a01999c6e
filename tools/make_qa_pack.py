"""Train and pack the question-answering pack that is shipped: MiniLM with low-rank changes and a small head.

python tools/make_qa_pack.py --data DIR                        # DIR holds SQuAD 2.0 as train and dev files
python tools/make_qa_pack.py --data DIR --extra more.json.gz   # and other files in SQuAD's form to learn from
python tools/make_qa_pack.py --data DIR --extra more.json.gz --astray   # asked of wrong texts, too
python tools/make_qa_pack.py --data builtin --epochs 1         # a trial on the built-in set alone

Learns from SQuAD 2.0 (CC BY-SA 4.0), from the built-in set and from files named with --extra, whose licences must allow
it. Minutes on a GPU, hours on a CPU. The pack goes to src/bertvision/packs/builtin/, unless --out says otherwise.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertvision.cli.main import main as bertvision
from bertvision.pack_files import BUILTIN_PACK, BUILTIN_PACKS
from bertvision.packs.pack import Pack
from bertvision.tasks.files import read_json
from bertvision.tasks.load import TASKS
from bertvision.tasks.sources import find_builtin, find_local

MOST_BYTES = 3_000_000
"""What the wheel has room for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Join the data, tune, pack, and see that it is small enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--extra", nargs="*", default=[], type=Path)
    parser.add_argument("--astray", action="store_true", help="ask extra questions of another text as well: no answer")
    parser.add_argument("--learn", default="lora:24")
    parser.add_argument("--head", default="adapter_pool_skip")
    parser.add_argument("--size", default="64")
    parser.add_argument("--epochs", default="4")
    parser.add_argument("--lr", default="1e-3")
    parser.add_argument("--fraction", default="1")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--licence", default="cc-by-sa-4.0")
    parser.add_argument("--work", type=Path, help="folder of the data and the run (default: a temporary one)")
    parser.add_argument("--out", type=Path, default=BUILTIN_PACKS / BUILTIN_PACK)
    given = parser.parse_args(argv)
    work = given.work or Path(tempfile.mkdtemp(prefix="qa-pack-"))
    data = join_data(given.data, given.extra, work / source_name(given.data, given.extra), astray=given.astray)
    run = work / "run"
    tune = ["tune", "squad2", "--data", str(data), "--encoder", "minilm", "--learn", given.learn, "--head", given.head]
    tune += ["--set", f"size={given.size}", "--epochs", given.epochs, "--lr", given.lr, "--fraction", given.fraction]
    tune += ["--held-out", "0.05", "--device", given.device, "--out", str(run)]
    pack = ["pack", str(run), "--heads", "own_output", "--licence", given.licence, "--device", given.device]
    for words in (tune, [*pack, "--out", str(given.out)]):
        code = bertvision(words)
        if code:
            return code
    if given.work is None:
        shutil.rmtree(work)
    size = Pack.load(given.out).bytes
    print(f"{size:,} bytes, at most {MOST_BYTES:,} are expected")
    return 0 if size <= MOST_BYTES else 1


def source_name(place: str, extra: Sequence[Path]) -> str:
    """What the card says the pack learnt from."""
    names = ["builtin"] if place == "builtin" else [Path(place).name, "builtin"]
    return "+".join([*names, *(path.name.partition(".")[0] for path in extra)])


def join_data(place: str, extra: Sequence[Path], folder: Path, *, astray: bool = False) -> Path:
    """A folder with all questions to learn from, and those of the named data to judge by."""
    task = TASKS["squad2"]
    builtin = find_builtin(task).paths
    paths = builtin if place == "builtin" else find_local(task, Path(place)).paths
    articles = list(read_json(paths["train"])["data"])
    for path in extra:
        articles += [article_astray(article) if astray else article for article in read_json(path)["data"]]
    if place != "builtin":
        articles += read_json(builtin["train"])["data"]
    seen: set[str] = set()
    for article in articles:
        for paragraph in article["paragraphs"]:
            new = [one for one in paragraph["qas"] if str(one["id"]) not in seen]
            seen.update(str(one["id"]) for one in new)
            paragraph["qas"] = new
    folder.mkdir(parents=True, exist_ok=True)
    for split, content in (("train", {"data": articles}), ("dev", read_json(paths["dev"]))):
        (folder / f"{split}.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return folder


def article_astray(article: dict[str, Any]) -> dict[str, Any]:
    """An article whose questions are asked of its next paragraph as well, if that holds none of their answers."""
    paragraphs = article["paragraphs"]
    strays: list[list[Any]] = [[] for _ in paragraphs]
    for number, paragraph in enumerate(paragraphs if len(paragraphs) > 1 else []):
        after = (number + 1) % len(paragraphs)
        text = paragraphs[after]["context"].lower()
        strays[after] = [
            {"id": f"{one['id']}-astray", "question": one["question"], "answers": [], "is_impossible": True}
            for one in paragraph["qas"]
            if one["answers"] and not any(answer["text"].lower() in text for answer in one["answers"])
        ]
    pairs = zip(paragraphs, strays, strict=True)
    return article | {"paragraphs": [one | {"qas": [*one["qas"], *added]} for one, added in pairs]}


if __name__ == "__main__":
    sys.exit(main())
