"""Mutation testing: plants faults, one at a time, and prints those that no test catches.

python tools/mutate.py                     # every fault in heads/
python tools/mutate.py --sample 100        # a random sample of 100 of them
python tools/mutate.py objectives store/codec.py training/solve.py
"""

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.machinery
import json
import multiprocessing
import os
import random
import signal
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import override

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "bertvision"
SECONDS = 300
"""Timeout of the tests of a fault, which counts as caught then."""

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Sub,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in one file.

    Attributes:
        file: path of the file, relative to the package.
        line: line of the fault.
        what: the code before → after.
        source: source of the file with the fault.
    """

    file: str
    line: int
    what: str
    source: str


def faults_of(path: Path) -> Iterator[Fault]:
    """Every fault that can be planted in a file, by the rules of `_changes`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node) for root in _not_code(tree) for node in ast.walk(root)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not isinstance(node, ast.expr | ast.If):
            continue
        for changed in _changes(node):
            other = copy.deepcopy(tree)
            place = next(found for count, found in enumerate(ast.walk(other)) if count == number)
            _Replace(place, changed).visit(other)
            source = ast.unparse(ast.fix_missing_locations(other))
            before = ast.unparse(node).splitlines()[0]
            after = ast.unparse(ast.fix_missing_locations(changed)).splitlines()[0]
            yield Fault(str(path.relative_to(PACKAGE)), node.lineno, f"{before} → {after}", source)


def _not_code(tree: ast.Module) -> Iterator[ast.AST]:
    """Docstrings, annotations, decorators, imports and raised errors, which do not change numbers."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Raise():
                yield node
            case ast.AnnAssign(annotation=annotation):
                yield annotation
            case ast.FunctionDef(decorator_list=decorators, returns=returns, args=arguments):
                yield from decorators
                yield from [returns] if returns is not None else []
                yield from [a.annotation for a in (*arguments.args, *arguments.kwonlyargs) if a.annotation is not None]


def _changes(node: ast.AST) -> Iterator[Any]:  # noqa: C901 - one case per rule
    match node:
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            yield ast.BinOp(left=node.left, op=_OPERATORS[type(op)](), right=node.right)
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            yield ast.Compare(left=node.left, ops=[_COMPARISONS[type(op)]()], comparators=node.comparators)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(value=not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value=value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value=2 * value if value else 0.5)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test=test, body=orelse, orelse=body)
        case ast.If(test=test, body=body, orelse=orelse):
            yield ast.If(test=ast.UnaryOp(op=ast.Not(), operand=test), body=body, orelse=orelse)
        case ast.Call(func=ast.Attribute(value=value, attr="relu" | "detach" | "float" | "square" | "cumsum"), args=[]):
            yield value
        case ast.Call(func=ast.Attribute(attr="gelu" | "relu" | "tanh" | "sigmoid" | "layer_norm"), args=[first, *_]):
            yield first
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="where"), args=[_, first, _]):
            yield first
        case ast.Call(func=ast.Attribute(attr="softmax" as name, value=value), args=[], keywords=keywords):
            yield ast.Call(func=ast.Attribute(value=value, attr="log_" + name), args=[], keywords=keywords)


class _Replace(ast.NodeTransformer):
    def __init__(self, place: ast.AST, changed: ast.AST) -> None:
        self.place, self.changed = place, changed

    @override
    def visit(self, node: ast.AST) -> Any:
        return self.changed if node is self.place else self.generic_visit(node)


class _Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Importer that loads one module from the source with the fault."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        self.name, self.path, self.source = name, path, source

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname == self.name else None

    @override
    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = str(self.path)
        exec(compile(self.source, self.name, "exec"), module.__dict__)  # noqa: S102 - our own source with a fault


def tests_for(file: str, *, own: bool) -> list[list[str]]:
    """Groups of tests for a file: its own first; then, unless `own`, those of its package and of the contract."""
    tests, path = ROOT / "tests", Path(file)
    part = path.parts[0]
    first = tests / "unit" / path.parent / f"test_{path.name}"
    rest = [tests / "unit" / part, tests / "contract" / f"test_{part}.py"]
    return [[str(place)] for place in ([first] if own and first.exists() else [first, *rest]) if place.exists()]


def caught(fault: Fault, *, own: bool) -> bool:
    """Whether a test fails; tests run in forked processes that have imported libraries, but nothing of the package."""
    return any(_fails(fault, tests) for tests in tests_for(fault.file, own=own))


def _fails(fault: Fault, tests: list[str]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            _run(fault, tests)
        finally:
            os._exit(1)  # an exception counts as caught, too
    _, status = os.waitpid(child, 0)
    return status != 0


def _run(fault: Fault, tests: list[str]) -> None:
    """Run tests with a fault in a module, and exit the process with 0 if they pass."""
    signal.alarm(SECONDS)
    with open(os.devnull, "w") as silence:  # noqa: PTH123 - a descriptor is needed
        os.dup2(silence.fileno(), 1)
        os.dup2(silence.fileno(), 2)
    name = "bertvision." + fault.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    sys.meta_path.insert(0, _Planted(name, PACKAGE / fault.file, fault.source))
    import pytest  # noqa: PLC0415

    if pytest.main(["-x", "-q", "--assert=plain", "-p", "no:randomly", "-p", "no:cacheprovider", *tests]) == 0:
        os._exit(0)


def _prepare() -> None:
    """Import the libraries that tests need once, but nothing of the package, since a fault replaces a module of it."""
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    for module in ("torch", "safetensors.torch", "numpy", "transformers", "tokenizers"):
        importlib.import_module(module)
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)


def judge(faults: Sequence[Fault], jobs: int, *, own: bool, show: Callable[[int, int, int], None]) -> list[Fault]:
    """The faults that no test catches."""
    survivors = []
    with multiprocessing.get_context("fork").Pool(jobs, initializer=_prepare) as pool:
        for number, (fault, found) in enumerate(
            zip(faults, pool.imap(partial(caught, own=own), faults), strict=True), start=1
        ):
            if not found:
                survivors.append(fault)
            show(number, len(faults), len(survivors))
    return survivors


def place(word: str) -> Path:
    """The file or folder of the package that a word on the command line names."""
    path = PACKAGE / word
    if not path.exists() or not path.is_relative_to(PACKAGE):
        raise argparse.ArgumentTypeError(f"'{word}' is no file or folder below {PACKAGE}")
    return path


def main() -> None:
    """Plant the faults, and print the survivors and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", type=place, default=[place("heads")], help="paths below src/bertvision/")
    parser.add_argument("--sample", type=int, help="so many faults, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--own", action="store_true", help="run only the test file that has the file's name: faster")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    paths = [path for one in options.places for path in (sorted(one.rglob("*.py")) if one.is_dir() else [one])]
    _prepare()
    for path in {path.relative_to(PACKAGE).parts[0]: path for path in paths}.values():
        sound = Fault(str(path.relative_to(PACKAGE)), 0, "none", path.read_text(encoding="utf-8"))
        if caught(sound, own=options.own):
            raise SystemExit(f"the tests of {sound.file} fail without a fault; run them first")
    faults = [fault for path in paths for fault in faults_of(path)]
    if options.sample is not None and options.sample < len(faults):
        faults = random.Random(options.seed).sample(faults, options.sample)  # noqa: S311 - no secret

    def show(done: int, total: int, survivors: int) -> None:
        print(f"\r{done} of {total} faults, {survivors} survive", end="", file=sys.stderr, flush=True)

    survivors = judge(faults, options.jobs, own=options.own, show=show)
    print(file=sys.stderr)
    for fault in survivors:
        print(f"{fault.file}:{fault.line}: {fault.what}")
    print(json.dumps({"faults": len(faults), "caught": len(faults) - len(survivors)}))


if __name__ == "__main__":
    main()
