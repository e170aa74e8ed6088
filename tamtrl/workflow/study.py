"""Everything that the rules ask, read and checked."""

from pathlib import Path
from typing import NamedTuple

from tamtrl.workflow.backbones import Backbones
from tamtrl.workflow.configuration import Configuration
from tamtrl.workflow.data_sets import DataSets
from tamtrl.workflow.downloads import Downloads
from tamtrl.workflow.restored import Restored
from tamtrl.workflow.run_settings import RunSettings
from tamtrl.workflow.run_table import RunTable
from tamtrl.workflow.scorers import Scorers
from tamtrl.workflow.sweeps import Sweeps
from tamtrl.workflow.times import Times
from tamtrl.workflow.trajectories import Trajectories


class Study(NamedTuple):
    """Each knows those before it that it needs."""

    paper: Configuration
    rows: RunTable
    runs: RunSettings
    models: Backbones
    sets: DataSets
    trajectories: Trajectories
    scorers: Scorers
    restored: Restored
    times: Times
    sweeps: Sweeps
    downloads: Downloads

    @classmethod
    def load(cls, values: dict, root: Path, fetched_index: Path) -> "Study":
        """``values``: of a complete configuration, whose sections are replaced by what they mean; ``root``: of the checkout;
        ``fetched_index``: the folder for the index of an archive behind an address."""
        paper = Configuration.load(values, root)
        rows = RunTable.load(paper)
        paper.check_benchmarks()
        runs = RunSettings(paper, rows)
        runs.check()
        paper.check_tests()
        models, sets = Backbones(paper), DataSets(runs)
        trajectories = Trajectories(runs, models)
        scorers = Scorers(trajectories)
        restored = Restored.load(runs, paper["archive"], fetched_index)
        times, sweeps, downloads = Times(sets, scorers, restored), Sweeps(sets), Downloads(sets, scorers)
        return cls(paper, rows, runs, models, sets, trajectories, scorers, restored, times, sweeps, downloads)
