"""free_memory: memory that this process can still allocate, within the machine and its control groups (cgroups)."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

HIERARCHIES = {
    "2": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "1": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By version of control groups: where they are mounted; the files of a group's limit and use; and the key in
`memory.stat` of the part of its use that is file cache, which the kernel frees before it kills a process."""


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process can still allocate; None if the system does not tell (it is not Linux).

    In a container the limit is that of its control group: a process that exceeds it is killed, however much memory the
    machine has left.

    Args:
        root: the folder that holds `proc` and `sys`.
    """
    return min([*_of_machine(root), *_of_groups(root)], default=None)


def _of_machine(root: Path) -> Iterator[int]:
    """Bytes available on the machine, if known."""
    for name, value in _pairs(root / "proc/meminfo"):
        if name == "MemAvailable:":
            yield value * 1024


def _of_groups(root: Path) -> Iterator[int]:
    """Bytes left in every control group with a limit that applies to this process: its own, and those above it."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, name = line.split(":", maxsplit=2)
        if controllers not in ("", "memory"):
            continue
        mount, limit, used, cache = HIERARCHIES["1" if controllers else "2"]
        group = PurePosixPath(name.lstrip("/"))
        # in a container the path may be that on the host; the container's own group is then the mount itself
        for path in (group, *group.parents):
            folder = root / mount / path
            most, taken = _number(folder / limit), _number(folder / used)
            if most is not None and taken is not None:
                reclaimable = sum(value for name, value in _pairs(folder / "memory.stat") if name == cache)
                yield max(0, most - taken + reclaimable)


def _number(path: Path) -> int | None:
    """The number in a file; None if it says `max` (no limit) or does not exist."""
    return next((int(line) for line in _lines(path) if line.isdigit()), None)


def _pairs(path: Path) -> Iterator[tuple[str, int]]:
    """The lines of a file that are a name and a number."""
    for line in _lines(path):
        words = line.split()
        if len(words) > 1 and words[1].isdigit():
            yield words[0], int(words[1])


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii", errors="replace").splitlines() if path.is_file() else []
