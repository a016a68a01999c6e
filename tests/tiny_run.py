"""A tiny encoder and tiny data that it can learn, so that whole runs take a second."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import drop_pooler
from bertvision.heads import HeadShape, build_head
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuning.multitask_request import MultitaskRequest
from bertvision.tasks.windows import WindowOptions
from bertvision.training.model import TunedModel
from bertvision.training.options import TuneOptions
from bertvision.training.trainee import HeadSpec

torch.set_num_threads(1)  # threads gain nothing on models this small, and wait for each other on a busy machine

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["gold", "good", "bad", "where", "is", "it", "?", "a", "b", "c", "d", "e", "f", "g", "h"]
FILLERS = WORDS[-8:]
WIDTH = 16
WINDOWS = WindowOptions(length=64, stride=16, question=24)
Request = TypeVar("Request", TuneRequest, MultitaskRequest)


def tiny_config(dropout: float = 0.0) -> BertConfig:
    """A BERT of 2 layers of width 16."""
    return BertConfig(
        vocab_size=len(SPECIAL + WORDS),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.2,
    )


def tiny_encoder(*, dropout: float = 0.0, pooler: bool = False) -> Encoder:
    """An encoder with random weights."""
    model = BertModel(tiny_config(dropout))
    if not pooler:
        drop_pooler(model)
    return Encoder(model, name="tiny")


def tiny_model(*, outputs: int = 2, dropout: float = 0.0, seed: int = 0, head: str = "last_layer") -> TunedModel:
    """An encoder with random weights and a head on top."""
    torch.manual_seed(seed)
    encoder = tiny_encoder(dropout=dropout)
    return TunedModel(encoder, build_head(head, HeadShape(layers=3, width=WIDTH, outputs=outputs)))


def save_tiny_encoder(folder: Path, *, dropout: float = 0.0, seed: int = 0) -> str:
    """A folder with weights and a tokenizer of whole words; its path."""
    torch.manual_seed(seed)
    BertModel(tiny_config(dropout)).save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(SPECIAL + WORDS)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106 - a token of another kind
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(word, vocabulary[word]) for word in ("[CLS]", "[SEP]")],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=64,
        pad_token="[PAD]",  # noqa: S106 - as above
        unk_token="[UNK]",  # noqa: S106
        cls_token="[CLS]",  # noqa: S106
        sep_token="[SEP]",  # noqa: S106
        mask_token="[MASK]",  # noqa: S106
    )
    fast.save_pretrained(folder)
    return str(folder)


def write_questions(folder: Path, *, train: int = 40, dev: int = 12, answerable_only: bool = False) -> str:
    """SQuAD files: the answer to every question is the word 'gold', where the context has it; the folder's path."""
    for split, count in (("train", train), ("dev", dev)):
        random = np.random.default_rng(len(split))
        articles = [_article(f"{split}{number}", random, answerable_only) for number in range(count)]
        _write(folder / f"{split}.json", json.dumps({"data": articles}))
    return str(folder)


def _article(name: str, random: np.random.Generator, answerable_only: bool) -> dict[str, Any]:  # noqa: FBT001
    words = random.choice(FILLERS, size=int(random.integers(5, 12))).tolist()
    answers = []
    if answerable_only or random.random() < 0.5:
        at = int(random.integers(1, len(words)))
        words[at] = "gold"
        answers = [{"text": "gold", "answer_start": len(" ".join(words[:at])) + 1}]
    question = {"id": name, "question": "where is it ?", "answers": answers, "is_impossible": not answers}
    return {"title": name, "paragraphs": [{"context": f"{' '.join(words)} {name}", "qas": [question]}]}


def write_labels(folder: Path, *, train: int = 40, dev: int = 12, rare: float = 0.5) -> str:
    """SST-2 files: the word 'good' stands in texts of class 1, which are a share of `rare`; the folder's path."""
    for split, count in (("train", train), ("dev", dev)):
        random = np.random.default_rng(count)
        lines = ["sentence\tlabel"]
        for row in range(count):
            label = int(row < round(rare * count))
            lines.append(f"{' '.join(random.choice(FILLERS, size=4))} {'good' if label else 'bad'}\t{label}")
        _write(folder / f"{split}.tsv", "\n".join(lines) + "\n")
    return str(folder)


def write_scores(folder: Path, *, train: int = 40, dev: int = 12) -> str:
    """CSV files for the task `own`: the score of a text is its share of the word 'good'; the folder's path."""
    for split, count in (("train", train), ("dev", dev)):
        random = np.random.default_rng(count)
        lines = ["text,score"]
        for _ in range(count):
            words = random.choice(["good", "a"], size=4).tolist()
            lines.append(f"{' '.join(words)},{words.count('good') / 4}")
        _write(folder / f"{split}.csv", "\n".join(lines) + "\n")
    return str(folder)


def write_tags(folder: Path, *, train: int = 40, dev: int = 12) -> str:
    """JSONL files for the task `own`: a text has as labels those of 'good', 'bad' and 'gold' that stand in it."""
    for split, count in (("train", train), ("dev", dev)):
        random = np.random.default_rng(count)
        rows = []
        for _ in range(count):
            labels = [word for word in ("good", "bad", "gold") if random.random() < 0.5]
            rows.append({"text": " ".join([*random.choice(FILLERS, size=3), *labels]), "labels": labels})
        _write(folder / f"{split}.jsonl", "\n".join(json.dumps(row) for row in rows) + "\n")
    return str(folder)


def write_pairs(folder: Path, *, train: int = 40, dev: int = 12) -> str:
    """CSV files of pairs for the task `own`: class 1 where both texts have the same first word; the folder's path."""
    for split, count in (("train", train), ("dev", dev)):
        random = np.random.default_rng(count)
        lines = ["text,text_pair,label"]
        for _ in range(count):
            first, second = random.choice(["good", "bad"], size=2)
            more = random.choice(FILLERS, size=3)
            lines.append(f"{first} {more[0]},{second} {more[1]} {more[2]},{'same' if first == second else 'other'}")
        _write(folder / f"{split}.csv", "\n".join(lines) + "\n")
    return str(folder)


def write_several(root: Path, *, train: int = 40, dev: int = 12) -> str:
    """A data root with sst2 and squad2, and quora and sts, where a pair is alike if its second is good; its path."""
    write_labels(root / "SST-2", train=train, dev=dev)
    write_questions(root / "squad2", train=train, dev=dev)
    for split, count in (("train", train), ("dev", dev)):
        random = np.random.default_rng(count)
        rows = []
        for number in range(count):
            word = random.choice(["good", "bad"])
            more = random.choice(FILLERS, size=3)
            rows.append((f"{number}\tid{number}\t{' '.join(more)}\t{word} {more[0]} {number}", word == "good"))
        for task, column, scale in (("quora", "is_duplicate", 1.0), ("sts", "similarity", 5.0)):
            lines = [f"\tid\tsentence1\tsentence2\t{column}", *(f"{row}\t{scale * alike}" for row, alike in rows)]
            _write(root / "cs224n" / f"{task}-{split}.csv", "\n".join(lines) + "\n")
    return str(root)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def tiny_request(task: str, data: str, encoder: str, **changes: Any) -> TuneRequest:  # noqa: ANN401 - any field
    """A request for a short run; what is no field of the request is an option of tuning."""
    return _short(TuneRequest, changes, task=task, data=data, encoder=encoder)


def tiny_multitask(tasks: str, data: str, encoder: str, **changes: Any) -> MultitaskRequest:  # noqa: ANN401 - any field
    """A request for a short run for several tasks, as `tiny_request` makes them for one."""
    return _short(MultitaskRequest, changes, task=tasks, data=data, encoder=encoder)


def _short(kind: type[Request], changes: dict[str, Any], **asked: str) -> Request:
    own = {name: value for name, value in changes.items() if name in kind.__dataclass_fields__}
    options = TuneOptions(epochs=1, batch=8, lr=5e-3, head_lr=5e-3, warmup=0.0)
    options = replace(options, **{name: value for name, value in changes.items() if name not in own})
    return kind(**{**asked, "windows": WINDOWS, "held_out": 0.1, "device": "cpu", "options": options, **own})


def tiny_fit(task: str, data: str, encoder: str, *heads: HeadSpec, **changes: Any) -> FitRequest:  # noqa: ANN401 - any field
    """A request for a short fit of heads."""
    request = FitRequest(
        task=task,
        data=data,
        encoder=encoder,
        heads=heads,
        windows=WINDOWS,
        batch=8,
        held_out=0.2,
        source="stream",
        device="cpu",
    )
    return replace(request, **changes)


def head_tensors(run: Path) -> dict[str, Tensor]:
    """Every tensor of every head that a fit kept."""
    return {
        f"{path.parent.name}:{name}": value
        for path in sorted(run.glob("heads/*/*.safetensors"))
        for name, value in load_file(path).items()
    }


def same_heads(first: Path, second: Path) -> bool:
    """Whether two fits kept the same heads, to the last bit."""
    left, right = head_tensors(first), head_tensors(second)
    return bool(left) and left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def words(request: TuneRequest, out: Path, *more: str) -> list[str]:
    """The words of `bertvision tune` that mean a request made by `tiny_request`."""
    given: dict[str, object] = {
        "data": request.data,
        "encoder": request.encoder,
        "learn": request.learn,
        "head": request.head,
        "length": request.windows.length,
        "stride": request.windows.stride,
        "question": request.windows.question,
        "held-out": request.held_out,
        "fraction": request.fraction,
        "device": request.device,
        "snapshots": ",".join(str(fraction) for fraction in request.snapshots),
        "save-every": request.save_every,
        "out": out,
    }
    options = request.options
    names = ("epochs", "batch", "accumulate", "lr", "head_lr", "schedule", "warmup", "dropout", "patience", "seed")
    given |= {name.replace("_", "-"): getattr(options, name) for name in names}
    listed = [[f"--{name}", str(value)] for name, value in given.items() if value not in (None, "")]
    listed += [["--set", f"{name}={value}"] for name, value in request.head_options.items()]
    listed += [["--pooled"]] * request.pooled
    return ["tune", request.task, *(word for pair in listed for word in pair), *more]


def read_lines(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics, without the time they took."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "spent")} for line in lines]


def losses(run: Path) -> list[float]:
    """The loss curve of a run."""
    return [line["loss"] for line in read_lines(run) if "loss" in line]


def read_tensors(run: Path) -> dict[str, Tensor]:
    """Every tensor of every snapshot of a run."""
    return {
        f"{path.relative_to(run)}:{name}": value
        for path in sorted(run.glob("snapshots/**/*.safetensors"))
        for name, value in load_file(path).items()
    }


def same_state(first: Path, second: Path) -> bool:
    """Whether two runs ended the same to the last bit: every tensor of every snapshot, and every line of the log."""
    left, right = read_tensors(first), read_tensors(second)
    equal = left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())
    return equal and bool(left) and read_lines(first) == read_lines(second)


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """A copy of every parameter."""
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def record_compiling(patch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that are compiled from now on; they stay as they are: nobody waits for a compiler."""
    names: list[str] = []

    def compile(function: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:  # noqa: A001 - as torch calls it
        assert dynamic  # else every new number of tokens is compiled anew
        names.append(function.__qualname__)
        return function

    patch.setattr(torch, "compile", compile)
    return names
