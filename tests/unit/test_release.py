"""What a release says of itself: one version everywhere, and files that others' tools read."""

import yaml
from conftest import REPOSITORY

import tamtrl


def test_one_version():
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    lines = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    newest = next(line for line in lines if line.startswith("## ") and line != "## Unreleased")
    assert citation["version"] == tamtrl.__version__ == newest.split()[1]
    assert str(citation["date-released"]) == newest.split()[3]


def test_the_catalog_finds_what_it_shows():
    """The flags that its usage page puts behind `snakemake` are ours."""
    usage = yaml.safe_load((REPOSITORY / ".snakemake-workflow-catalog.yml").read_text(encoding="utf-8"))["usage"]
    option, profile = usage["mandatory-flags"]["flags"].split()
    assert option == "--profile" and (REPOSITORY / profile / "config.yaml").exists()
    assert usage["report"] is True and (REPOSITORY / "config" / "README.md").exists()
