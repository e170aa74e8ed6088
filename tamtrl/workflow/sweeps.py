"""Figures 5-7: models trained on other documents, chunks and amounts of data (rows of runs.tsv), and tests of Table 1's models on
other documents and chunks (`tests` in the configuration), which train nothing."""

from dataclasses import dataclass

from tamtrl.workflow.data_sets import DataSets
from tamtrl.workflow.patterns import RUN, TEST
from tamtrl.workflow.run_table import Row


@dataclass(frozen=True)
class Panel:
    item: str  # of runs.tsv
    heading: str
    varied: str


FIGURES = {
    "fig5_documents": [
        Panel("fig5_training", "varied in training", "Paragraphs of a training document"),
        Panel("fig5_test", "varied in the test", "Paragraphs of a test document"),
    ],
    "fig6_chunk_size": [
        Panel("fig6_training", "varied in training", "Chunk size in training (tokens)"),
        Panel("fig6_test", "varied in the test", "Chunk size in the test (tokens)"),
    ],
    "fig7_data": [Panel("fig7", "less training data", "Training questions")],
}


@dataclass(frozen=True, eq=False)
class Sweeps:
    data_sets: DataSets

    @property
    def figures(self) -> list[str]:
        return list(FIGURES)

    @property
    def items(self) -> list[str]:
        return [panel.item for panels in FIGURES.values() for panel in panels]

    def points(self, item: str) -> list[dict]:
        """Of one panel: the wildcards of a run and a benchmark, what was changed (``value``), and the scores (``documents``)."""
        table = self.data_sets.runs.table
        of_run = self._tested if item in ("fig5_test", "fig6_test") else self._trained
        points = [point for row in table.of(item) for seed in table.seeds for point in of_run(item, row, seed)]
        return [point for point in points if point["value"] is not None]  # a set that doesn't say is no point

    def _trained(self, item: str, row: Row, seed: int) -> list[dict]:
        """What is changed is read from the row that changes it."""
        sections = self.data_sets.runs.of(row)
        train_set = sections["train_sets"]["train"]
        value = {
            "fig5_training": self.data_sets.paragraphs(train_set),
            "fig6_training": sections["train_reading"]["chunk_tokens"],
            "fig7": self.data_sets.specs[train_set].get("count"),
        }[item]
        run = row.case(seed)
        return [
            run | {"benchmark": name, "value": value, "documents": f"{RUN}/scores/{name}.documents.csv".format(**run)}
            for name in self.data_sets.configuration.evaluated
        ]

    def _tested(self, item: str, row: Row, seed: int) -> list[dict]:
        """And here from the test, None being Table 1."""
        configuration, run = self.data_sets.configuration, row.case(seed)
        tests = [(None, configuration.shown)]
        tests += [(test["name"], name) for test in configuration["tests"].get(item, []) for name in test["benchmarks"]]
        points = []
        for test, benchmark in tests:
            if item == "fig5_test":
                value = self.data_sets.paragraphs(benchmark)
            else:
                value = self.data_sets.runs.evaluation(row, 0, test)["reading"]["chunk_tokens"]
            folder = (RUN if test is None else TEST).format(**run, test=test)
            scores = f"{folder}/scores/{benchmark}.documents.csv"
            points.append(run | {"benchmark": configuration.shown, "value": value, "documents": scores})
        return points

    def panels(self, figure: str) -> list[Panel]:
        """Those of which more than one point is selected."""
        return [panel for panel in FIGURES[figure] if len({point["value"] for point in self.points(panel.item)}) > 1]

    def drawn(self) -> list[str]:
        return [figure for figure in FIGURES if self.panels(figure)]
