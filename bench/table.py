"""Write the tables of records into the README, between their marks."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARKS = {
    name: (f"<!-- {name} table: written by bench/table.py -->", f"<!-- end of {name} table -->")
    for name in ("speed", "quality")
}


def speed_table() -> str:
    """The records of results/ as Markdown."""
    rows = ["| what | against | times faster (range) | promised | on |", "|---|---|---|---|---|"]
    for path in sorted((ROOT / "results").glob("speed-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for baseline, ratio in record["ratios"].items():
            promised = record["targets"].get(baseline, "")
            spread = f"{ratio['least']:.1f} to {ratio['most']:.1f}"
            rows.append(
                f"| [{record['what']}](results/{path.name}) | {baseline} | **{ratio['median']:.1f}** ({spread}) "
                f"| {promised} | {record['size']} |"
            )
    return "\n".join(rows)


def quality_table() -> str:
    """The chosen runs of each quality record as Markdown."""
    rows = ["| what learns | rate | F1, threshold 0 | fitted | best on dev | bytes kept |", "|---|---|---|---|---|---|"]
    for path in sorted((ROOT / "results").glob("quality-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for run in record["runs"]:
            if record["chosen"][run["learn"]] == run["lr"]:
                values = " | ".join(f"{run['metrics'][name]:.1f}" for name in ("f1", "f1_fitted", "best_f1"))
                size = f"{run['bytes'] / 1e6:,.0f} MB"
                rows.append(f"| [{run['learn']}](results/{path.name}) | {run['lr']:g} | {values} | {size} |")
    return "\n".join(rows)


def with_tables(readme: str) -> str:
    """The README with the tables as the records have them now."""
    for name, table in (("speed", speed_table()), ("quality", quality_table())):
        begin, end = MARKS[name]
        before, _, rest = readme.partition(begin)
        _, _, after = rest.partition(end)
        readme = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return readme


def main() -> None:
    """Rewrite the README."""
    readme = ROOT / "README.md"
    readme.write_text(with_tables(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
