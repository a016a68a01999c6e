"""The one-way rule: a part imports only from itself and from the parts before it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "bertvision"

ORDER = [
    *("errors", "amounts", "atomic", "typed_json", "tensor_files", "lock", "device"),
    *("provenance", "cards", "pretrained", "pack_files", "places"),
    *("tasks", "encoder", "store", "heads", "objectives", "training", "evaluation", "inference", "analysis"),
    *("runs", "report", "packs", "estimators", "server", "bench", "cli"),
]
"""The parts in the order in which they may build on each other, which is also the order to read them in."""

WALLS = {
    "torch": {
        *("encoder", "store", "heads", "objectives", "training", "inference", "runs", "packs", "estimators"),
        *("device.py", "tensor_files.py", "bench/plain_rival.py", "bench/sentence_methods.py"),
    },
    # the rival is what people write with these libraries, so it is no wall's business to hide them there
    "transformers": {
        "pretrained.py",
        "tasks/tokenizer.py",
        "encoder/load.py",
        "encoder/packed.py",
        "encoder/gelu.py",
        "encoder/relative.py",
        "bench/plain_rival.py",
    },
    "triton": {f"heads/parts/{kernels}.py" for kernels in ("adapted", "mixtures", "window_attention")},
    "peft": {"encoder/lora.py", "encoder/low_rank.py", "bench/plain_rival.py"},
    "accelerate": {"training/processes.py"},
    "datasets": {"tasks/hub.py", "bench/sentence_methods.py"},
    "sentence_transformers": {"bench/sentence_vectors.py"},
    "setfit": {"bench/sentence_methods.py"},
    "pyarrow": {"tasks/tables.py"},
    "sklearn": {"evaluation/metrics.py", "estimators", "bench/sentence_methods.py"},
    "scipy": {"evaluation/metrics.py", "analysis/seeds.py"},
    "optuna": {f"runs/searching/search{part}.py" for part in ("", "_groups", "_heads", "_record", "_study", "_tune")},
    "sqlalchemy": {"runs/searching/search_study.py"},
    "argparse": {"cli/options.py"},
    "rich": {"cli/output.py"},
    "safetensors": {
        *("tensor_files.py", "encoder/own_output.py", "store/writer.py", "store/reader.py"),
        "runs/judging/kept_outputs.py",
    },
    "huggingface_hub": {"packs/hub.py"},
    "fastapi": {"server"},
    "starlette": {"server/app.py", "server/middleware.py"},
    "pydantic": {"server/schema.py"},
    "uvicorn": {"server/serve.py"},
    "prometheus_client": {"server/metrics.py"},
}
"""Libraries that may be imported in these files and parts only."""

FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def part_of(name: str) -> str:
    return name.split("/", maxsplit=1)[0].removesuffix(".py")


def imported(file: str) -> list[str]:
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.append(node.module or "")
    return names


def test_every_part_has_its_place_in_the_order() -> None:
    assert {part_of(file) for file in FILES} - {"__init__", "__main__"} == set(ORDER)


@pytest.mark.parametrize("file", [file for file in FILES if part_of(file) in ORDER])
def test_imports_go_one_way(file: str) -> None:
    allowed = ORDER[: ORDER.index(part_of(file)) + 1]
    for name in imported(file):
        if name.startswith("bertvision."):
            assert name.split(".")[1] in allowed, f"{file} imports {name}"


@pytest.mark.parametrize("file", FILES)
def test_libraries_stay_behind_their_walls(file: str) -> None:
    for name in imported(file):
        allowed = WALLS.get(name.split(".")[0])
        assert allowed is None or allowed & {file, part_of(file)}, f"{file} imports {name}"


TABLE = {name for name in imported("heads/table.py") if name.startswith("bertvision.heads.")}
TABLE -= {"bertvision.heads.head"}
"""The module of every head."""


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("heads/parts/")])
def test_a_part_of_heads_knows_no_head(file: str) -> None:
    ours = {name for name in imported(file) if name.startswith("bertvision.heads")}
    assert all(name == "bertvision.heads.head" or name.startswith("bertvision.heads.parts.") for name in ours)


@pytest.mark.parametrize("module", sorted(TABLE))
def test_a_head_is_made_of_parts_and_not_of_other_heads(module: str) -> None:
    assert not TABLE & set(imported(f"{module.removeprefix('bertvision.').replace('.', '/')}.py"))


@pytest.mark.parametrize("file", FILES)
def test_a_private_name_is_never_imported_from_another_file(file: str) -> None:
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bertvision"):
            assert not [
                alias.name for alias in node.names if alias.name.startswith("_") and alias.name != "__version__"
            ]


@pytest.mark.parametrize("file", FILES)
def test_every_module_opens_with_a_sentence(file: str) -> None:
    assert ast.get_docstring(ast.parse((PACKAGE / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", FILES)
def test_no_file_outgrows_the_style(file: str) -> None:
    assert len((PACKAGE / file).read_text(encoding="utf-8").splitlines()) <= 300
