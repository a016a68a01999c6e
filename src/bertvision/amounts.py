"""Counts, layers, bytes, seconds and tokens as text for messages and tables."""


def in_words(count: float, one: str) -> str:
    """A count with its noun in singular or plural: `1 head`, `2 heads`, `0.3 epochs`."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {one}" if count == 1 else f"{number} {one}s"


def in_layers(layers: range) -> str:
    """Adjacent layers as the first and the last: `0..6`."""
    return f"{layers[0]}..{layers[-1]}"


def in_bytes(count: float) -> str:
    """Bytes in decimal units, with three significant digits: `1.5 KB`, `20 MB`, `3.14 GB`."""
    for unit, size in (("KB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        number = f"{count / size:.3g}"
        if float(number) < 1000:  # after rounding, so that 999,700 KB are 1 GB, not 1e+03 MB
            return f"{number} {unit}"
    return f"{count / 1e9:,.0f} GB"


def in_seconds(seconds: float) -> str:
    """A duration with one decimal: in seconds below 90 s, in minutes below 1.5 h, else in hours."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


def in_tokens(tokens: float) -> str:
    """A number of tokens: `1,234 tokens`; in millions from 100,000 on."""
    return f"{tokens / 1e6:.2f} million tokens" if tokens >= 1e5 else f"{tokens:,.0f} tokens"
