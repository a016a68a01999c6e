"""free_memory: what a process here may still take, by the machine and by the limits of its control groups."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

HIERARCHIES = {
    "2": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "1": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By version of control groups: where they are mounted, a group's limit, its use, and what of that is a file cache
which the system gives back before it ends a process."""


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take; None where the machine does not say.

    A container's limit is that of its control group: what the machine has left beyond it ends in the process's death.

    Args:
        root: the folder that holds `proc` and `sys`.
    """
    return min([*_of_machine(root), *_of_groups(root)], default=None)


def _of_machine(root: Path) -> Iterator[int]:
    for name, value in _pairs(root / "proc/meminfo"):
        if name == "MemAvailable:":
            yield value * 1024


def _of_groups(root: Path) -> Iterator[int]:
    """What is left in each group that this process is in and that has a limit: its own, and those above it."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, name = line.split(":", maxsplit=2)
        if controllers not in ("", "memory"):
            continue
        mount, limit, used, cache = HIERARCHIES["1" if controllers else "2"]
        group = PurePosixPath(name.lstrip("/"))
        for place in (group, *group.parents):  # in a container the path may be that of the host: its own is the mount
            folder = root / mount / place
            most, taken = _number(folder / limit), _number(folder / used)
            if most is not None and taken is not None:
                given_back = sum(value for name, value in _pairs(folder / "memory.stat") if name == cache)
                yield max(0, most - taken + given_back)


def _number(path: Path) -> int | None:
    """The number in a file; None where it says `max`, or is not there."""
    return next((int(line) for line in _lines(path) if line.isdigit()), None)


def _pairs(path: Path) -> Iterator[tuple[str, int]]:
    for line in _lines(path):
        words = line.split()
        if len(words) > 1 and words[1].isdigit():
            yield words[0], int(words[1])


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii", errors="replace").splitlines() if path.is_file() else []
