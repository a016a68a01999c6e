"""Provenance of a result: commit, command, versions and hardware, stored with every artefact."""

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

_PACKAGES = ("accelerate", "bertvision", "numpy", "peft", "scikit-learn", "scipy", "torch", "transformers")
_CODE = ("--", ":/", ":(exclude,top)results")  # new result records do not make the code dirty

COMMIT = "BERTVISION_COMMIT"
"""Environment variable with the commit, for where there is no git checkout, as in a container or a copied tree."""

COMMAND: ContextVar[str | None] = ContextVar("command", default=None)
"""The command line that is running; None if the package is called from Python."""


def provenance() -> dict[str, object]:
    """Time, commit, command, versions and hardware of this process, for JSON.

    `dirty` is True if tracked files other than results differ from the commit; None if git does not tell.
    """
    named = os.environ.get(COMMIT)
    commit = _git("rev-parse", "HEAD") if named is None else None
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit if named is None else named,
        "dirty": None if commit is None else bool(_git("status", "--porcelain", "--untracked-files=no", *_CODE)),
        "command": COMMAND.get(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in _PACKAGES},
        "processor": _processor(),
        "gpu": _gpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def portable(text: str, called: Mapping[str, str] | None = None) -> str:
    """A text with every absolute path replaced by its last part, so that records hold no paths of one machine.

    `called` maps such a last part to another name to use instead.

    Example:
        >>> portable("bertvision bench rival --data /home/me/sets --encoder mpnet=/models/mp")
        'bertvision bench rival --data sets --encoder mpnet=mp'
    """

    def named(match: re.Match[str]) -> str:
        name = Path(match[0]).name
        return (called or {}).get(name, name)

    return re.sub(r"(?<![^\s=,'\"])/[^\s,'\"]+", named, text)  # alone, between commas or in quotes


def without_password(word: str) -> str:
    """A command-line word with the password masked, if it is a URL that contains one.

    Example:
        >>> without_password("postgresql://me:secret@host/searches?password=secret")
        'postgresql://me:***@host/searches?password=***'
    """
    hidden = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", word)
    return re.sub(r"(?i)([?&](?:ssl)?password)=[^&]*", r"\1=***", hidden)


def _git(*words: str) -> str | None:
    """Output of a git command in the checkout of this package; None without git or a checkout."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            ["git", *words],  # noqa: S607 - git is found on the path
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def package_version(package: str = "bertvision") -> str | None:
    """The installed version of a package; None if it is not installed (a source tree on the path is not)."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpu() -> str | None:
    """The GPU's name; None without one, or if torch, which takes seconds to import, was not imported."""
    torch = sys.modules.get("torch")
    return str(torch.cuda.get_device_name()) if torch is not None and torch.cuda.is_available() else None


def file_digest(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
