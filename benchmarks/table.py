"""Tables and bars for people."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["bars", "show"]


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with aligned columns."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    print(f"\n{title}")
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())


def bars(title: str, values: Sequence[float], unit: str, *, buckets: int = 20) -> None:
    """Print how a value goes over a run, as medians of equal stretches."""
    size = max(1, len(values) // buckets)
    medians = [sorted(values[at : at + size])[size // 2] for at in range(0, len(values) - size + 1, size)]
    top = max(medians)
    marks = " ▁▂▃▄▅▆▇█"
    line = "".join(marks[max(1, round(value / top * (len(marks) - 1)))] for value in medians)
    print(f"  {title}  {line}  (top {top:.3f} {unit})")
