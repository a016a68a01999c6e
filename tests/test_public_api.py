import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import bertvision

MODULES = [
    module.name for module in pkgutil.walk_packages(bertvision.__path__, "bertvision.") if "__main__" not in module.name
]
KERNELS = {f"bertvision.heads.parts.{name}" for name in ("adapted", "mixtures", "window_attention")}


def test_every_public_name_can_be_had_and_has_a_docstring() -> None:
    for name in bertvision.__all__:
        value = getattr(bertvision, name)
        assert isinstance(value, dict) or value.__doc__
        assert name in dir(bertvision)


def test_what_a_caller_can_mend_is_caught_by_a_public_name() -> None:
    with pytest.raises(bertvision.BertVisionError, match="Did you mean 'sst2'"):
        bertvision.load_task("sst2x")


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'load_tusk'"):
        bertvision.load_tusk  # noqa: B018 - the look-up is the test


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str) -> None:
    if module in KERNELS:
        pytest.importorskip("triton")  # it comes with torch for GPUs
    failures, _ = doctest.testmod(importlib.import_module(module))
    assert failures == 0


def test_help_and_version_import_nothing_heavy() -> None:
    script = (
        "import sys; from bertvision.cli.main import main; main(['--help']); main(['--version']);"
        "heavy = {'torch', 'transformers', 'numpy', 'sklearn', 'scipy'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize("words", ["data check squad2 --json", "ls tasks --json"])
def test_looking_at_tasks_and_questions_imports_no_torch(words: str) -> None:
    script = (
        f"import sys; from bertvision.cli.main import main; main({words.split()});"
        "heavy = {'torch', 'transformers', 'sklearn', 'scipy', 'datasets', 'pyarrow'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
