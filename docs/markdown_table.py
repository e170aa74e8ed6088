def table(heading: list[str], rows: list[list[str]]) -> str:
    """Markdown; the cells are Markdown already."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heading, ["---"] * len(heading), *rows))
