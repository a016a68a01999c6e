"""How much memory is left: of the machine, and within the limits of control groups."""

from pathlib import Path

import pytest

from bertvision.runs.planning.free_memory import free_memory


def machine(root: Path, *, kilobytes: int, groups: str, **files: str) -> Path:
    """The files of a machine and of its control groups; in names `__` stands for a slash."""
    written = {"proc/meminfo": f"MemTotal: 9999 kB\nMemAvailable: {kilobytes} kB\n", "proc/self/cgroup": groups}
    written |= {f"sys/fs/cgroup/{name.replace('__', '/')}": text for name, text in files.items()}
    for name, text in written.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


def group(limit: str, used: int, cache: int = 0, *, name: str = "") -> dict[str, str]:
    """The files of a group of version 2."""
    stat = f"anon 5\ninactive_file {cache}\nactive_file 7\n"
    return {f"{name}memory.max": f"{limit}\n", f"{name}memory.current": f"{used}\n", f"{name}memory.stat": stat}


def test_this_machine_says_how_much_memory_it_has_left() -> None:
    free = free_memory()
    assert free is None or 10**7 < free < 10**14


def test_where_the_machine_does_not_say_there_is_no_limit(tmp_path: Path) -> None:
    assert free_memory(tmp_path) is None


def test_without_a_limit_the_machine_s_memory_counts(tmp_path: Path) -> None:
    assert free_memory(machine(tmp_path, kilobytes=4, groups="0::/\n", **group("max", 10))) == 4096


def test_the_limit_of_a_container_counts_without_the_files_that_the_system_keeps_for_it(tmp_path: Path) -> None:
    assert free_memory(machine(tmp_path, kilobytes=4, groups="0::/\n", **group("3000", 1200, 200))) == 2000


def test_the_machine_s_memory_counts_below_the_limit_of_a_container(tmp_path: Path) -> None:
    assert free_memory(machine(tmp_path, kilobytes=1, groups="0::/\n", **group("3000", 1200))) == 1024


@pytest.mark.parametrize("groups", ["0::/user/job\n", "3:cpu:/else\n0::/user/job\n"])
def test_the_tightest_of_the_groups_above_counts(tmp_path: Path, groups: str) -> None:
    files = group("max", 100, name="user__job__") | group("2000", 500, name="user__") | group("max", 900)
    assert free_memory(machine(tmp_path, kilobytes=4, groups=groups, **files)) == 1500


def test_more_than_the_limit_leaves_nothing(tmp_path: Path) -> None:
    assert free_memory(machine(tmp_path, kilobytes=4, groups="0::/\n", **group("1000", 1200))) == 0


def test_groups_of_the_first_version_count_too(tmp_path: Path) -> None:
    files = {
        "memory__job__memory.limit_in_bytes": "3000\n",
        "memory__job__memory.usage_in_bytes": "1500\n",
        "memory__job__memory.stat": "cache 9\ntotal_inactive_file 300\n",
        "memory__memory.limit_in_bytes": "9223372036854771712\n",
        "memory__memory.usage_in_bytes": "1500\n",
    }
    assert free_memory(machine(tmp_path, kilobytes=4, groups="4:memory:/job\n0::/\n", **files)) == 1800


def test_a_container_that_is_told_the_host_s_path_has_the_limit_of_its_mount(tmp_path: Path) -> None:
    files = {"memory__memory.limit_in_bytes": "3000\n", "memory__memory.usage_in_bytes": "1000\n"}
    assert free_memory(machine(tmp_path, kilobytes=4, groups="4:memory:/docker/0123\n", **files)) == 2000
