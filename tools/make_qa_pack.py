"""Train and pack the question-answering pack that is shipped: MiniLM with LoRA and a small head.

python tools/make_qa_pack.py --data DIR                        # DIR holds SQuAD 2.0 as train and dev files
python tools/make_qa_pack.py --data DIR --extra more.json.gz   # and other training files in SQuAD's format
python tools/make_qa_pack.py --data DIR --extra more.json.gz --astray extra   # and their questions with wrong texts
python tools/make_qa_pack.py --data DIR --teacher runs/mpnet --without-builtin   # distilled from a larger model
python tools/make_qa_pack.py --data builtin --epochs 1         # a trial on the built-in set alone

Trains on SQuAD 2.0 (CC BY-SA 4.0), on the built-in set and on the files of --extra, whose licences must allow it. Takes
minutes on a GPU, hours on a CPU. The pack is written to src/bertvision/packs/builtin/, or to --out.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from bertvision.cli.main import main as bertvision
from bertvision.pack_files import BUILTIN_PACK, BUILTIN_PACKS
from bertvision.packs.pack import Pack
from bertvision.tasks.examples import IntArray
from bertvision.tasks.files import read_json
from bertvision.tasks.load import TASKS
from bertvision.tasks.sources import find_builtin, find_local

MOST_BYTES = 3_000_000
"""Largest size of a pack in the wheel."""

CANDIDATES = 20
"""Number of the most similar texts among which one without the answer is searched."""

AT_ONCE = 256
"""Number of questions that are compared with all texts at once."""

USUAL = {
    "learn": "lora:24",
    "head": "adapter_pool_skip",
    "epochs": "4",
    "lr": "1e-3",
    "fraction": "1",
    "held-out": "0.05",
    "device": "auto",
    "batch": None,
    "schedule": None,
    "teacher": None,
    "teacher-share": None,
    "teacher-temperature": None,
}
"""Options that are passed on to `bertvision tune`, with their defaults here; None omits one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Join the data, tune, pack, and check the pack's size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--extra", nargs="*", default=[], type=Path)
    parser.add_argument(
        "--astray",
        choices=("none", "extra", "all"),
        default="none",
        help="ask questions with an answer of the most similar other text as well: no answer",
    )
    parser.add_argument("--without-builtin", action="store_true", help="learn nothing from the built-in set")
    parser.add_argument("--size", default="64")
    for name, usual in USUAL.items():
        parser.add_argument(f"--{name}", default=usual, help="as bertvision tune has it")
    parser.add_argument("--licence", default="cc-by-sa-4.0")
    parser.add_argument("--work", type=Path, help="folder of the data and the run (default: a temporary one)")
    parser.add_argument("--out", type=Path, default=BUILTIN_PACKS / BUILTIN_PACK)
    given = parser.parse_args(argv)
    if given.data == "builtin" and given.without_builtin:
        parser.error("--data builtin leaves nothing to learn from --without-builtin")
    work = given.work or Path(tempfile.mkdtemp(prefix="qa-pack-"))
    builtin = not given.without_builtin
    source = work / source_name(given.data, given.extra, builtin=builtin)
    data = join_data(given.data, given.extra, source, astray=given.astray, builtin=builtin)
    run = work / "run"
    tune = ["tune", "squad2", "--data", str(data), "--encoder", "minilm", "--set", f"size={given.size}"]
    for name in USUAL:
        value = getattr(given, name.replace("-", "_"))
        tune += [] if value is None else [f"--{name}", value]
    tune += ["--out", str(run)]
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


def source_name(place: str, extra: Sequence[Path], *, builtin: bool = True) -> str:
    """The name of the training data in the card."""
    names = ["builtin"] if place == "builtin" else [Path(place).name, *["builtin"] * builtin]
    return "+".join([*names, *(path.name.partition(".")[0] for path in extra)])


def join_data(place: str, extra: Sequence[Path], folder: Path, *, astray: str = "none", builtin: bool = True) -> Path:
    """Write a folder with all training questions, and the dev questions of the named data.

    Args:
        place: folder of the data, or `builtin`.
        extra: further training files.
        folder: folder to write to.
        astray: files whose questions are also paired with other texts, see `ask_astray`: `none`, `extra`, or `all`.
        builtin: whether to add the built-in set to the training questions.
    """
    task = TASKS["squad2"]
    own = find_builtin(task).paths
    paths = own if place == "builtin" else find_local(task, Path(place)).paths
    articles = list(read_json(paths["train"])["data"])
    articles = ask_astray(articles) if astray == "all" else articles
    for path in extra:
        more = read_json(path)["data"]
        articles += more if astray == "none" else ask_astray(more)
    if place != "builtin" and builtin:
        articles += read_json(own["train"])["data"]
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


def ask_astray(articles: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add unanswerable questions: each question with an answer is also paired with the most similar other text.

    Texts that contain one of its answers, or have no word in common with it, are left out.
    """
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    texts = [str(paragraph["context"]).lower() for paragraph in paragraphs]
    asked = [(number, one) for number, each in enumerate(paragraphs) for one in each["qas"] if one["answers"]]
    strays: list[list[dict[str, Any]]] = [[] for _ in paragraphs]
    owners = np.array([number for number, _ in asked], dtype=np.int64)
    found = similar_texts([str(one["question"]) for _, one in asked], owners, texts)
    for (_, one), candidates in zip(asked, found, strict=True):
        answers = [str(answer["text"]).lower() for answer in one["answers"]]
        without = (n for n in candidates if not any(answer in texts[n] for answer in answers))
        stray = {"id": f"{one['id']}-astray", "question": one["question"], "answers": [], "is_impossible": True}
        for number in without:
            strays[number].append(stray)
            break
    added = iter(strays)
    return [
        article | {"paragraphs": [one | {"qas": [*one["qas"], *next(added)]} for one in article["paragraphs"]]}
        for article in articles
    ]


def similar_texts(questions: Sequence[str], owners: IntArray, texts: Sequence[str]) -> Iterator[list[int]]:
    """For each question the numbers of the other texts that are most similar by TF-IDF, the most similar first.

    Args:
        questions: the questions.
        owners: (questions,) number of the text that each question belongs to.
        texts: all texts.
    """
    if not questions:
        return
    words = TfidfVectorizer(sublinear_tf=True)
    known = words.fit_transform(texts)
    asked = words.transform(questions)
    for begin in range(0, len(questions), AT_ONCE):
        near = (asked[begin : begin + AT_ONCE] @ known.T).toarray()  # (questions, texts)
        near[np.arange(len(near)), owners[begin : begin + AT_ONCE]] = 0.0
        most = min(CANDIDATES, len(texts))
        best = np.sort(np.argpartition(-near, most - 1, axis=1)[:, :most], axis=1)
        values = np.take_along_axis(near, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        for row, likeness in zip(np.take_along_axis(best, order, axis=1), -np.sort(-values, axis=1), strict=True):
            yield row[likeness > 0.0].tolist()


if __name__ == "__main__":
    sys.exit(main())
