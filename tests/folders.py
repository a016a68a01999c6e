"""What is in folders, and in what two of them differ."""

from pathlib import Path

from safetensors.torch import load


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def differences(first: Path, second: Path) -> list[str]:
    """In what two folders differ, a line for each file; a failed comparison then prints lines, not megabytes."""
    one, other = everything(first), everything(second)
    lines = [f"{name} is in {first.name} alone" for name in sorted(one.keys() - other.keys())]
    lines += [f"{name} is in {second.name} alone" for name in sorted(other.keys() - one.keys())]
    lines += [f"{name}: {_apart(one[name], other[name])}" for name in one if one[name] != other.get(name, one[name])]
    return lines


def _apart(first: bytes, second: bytes) -> str:
    """In what two files differ: the values of tensors, or the first byte."""
    if len(first) == len(second) and first[8:9] == b"{":  # the header of safetensors begins after its length
        tensors, others = load(first), load(second)
        if tensors.keys() == others.keys():
            apart = {name: (tensors[name].double() - others[name].double()).abs() for name in tensors}
            words = [
                f"{name} in {int((far > 0).sum())} of {far.numel()} values by up to {float(far.max()):.3g}"
                for name, far in apart.items()
                if bool((far != 0).any())
            ]
            return ", ".join(words) or "the header"
    place = next((at for at, (mine, theirs) in enumerate(zip(first, second, strict=False)) if mine != theirs), None)
    if place is None:
        return f"{len(first)} and {len(second)} bytes, one begins with the other"
    begin = max(0, place - 20)
    return f"byte {place}: {first[begin : place + 40]!r} and {second[begin : place + 40]!r}"
