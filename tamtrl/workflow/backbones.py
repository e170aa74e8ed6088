"""Where the folders of models come from: the user, a copy kept in this repository, or a rule that fetches or makes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tamtrl.errors import UserError
from tamtrl.workflow import checkout
from tamtrl.workflow.configuration import Configuration
from tamtrl.workflow.patterns import RUN
from tamtrl.workflow.run_table import Row


@dataclass(frozen=True, eq=False)
class Backbones:
    configuration: Configuration

    def given_folder(self, name: str) -> str | None:
        """A folder of the user's, or a kept copy; None for a model that a rule fetches or makes."""
        given = self.configuration
        folder = given.models[name].get("path") or given.models[name].get("kept")
        return folder and checkout.located(given.root, folder, not given.own_models)

    def given_files(self, name: str) -> list[str]:
        if (folder := self.given_folder(name)) is None:
            raise ValueError(f"model {name} is fetched or made, not given as a folder")
        files = sorted(str(path) for path in Path(folder).glob("[!.]*") if path.is_file())
        if not files:
            raise UserError(f"The folder of model {name} ({folder}) has no files; correct `path` in models.yaml.")
        return files

    def given(self) -> list[str]:
        return [name for name in self.configuration.models if self.given_folder(name)]

    def having(self, key: str) -> list[str]:
        """Models that say this: ``repository`` those that are fetched, ``made`` those that are made."""
        return [name for name, spec in self.configuration.models.items() if key in spec]

    def taught(self, rows: Iterable[Row]) -> list[str]:
        """Models of these rows that were taught the toy task."""
        models = self.configuration.models
        return [name for name in dict.fromkeys(row.model for row in rows) if "course" in models[name].get("made", {})]

    def folder(self, name: str) -> str:
        return f"<results>/models/{'given/' if self.given_folder(name) else ''}{name}"

    def tested(self, row: Row, seed: int | str) -> str:
        """A run without training is the untrained backbone."""
        return self.folder(row.model) if row.training == "none" else f"{RUN}/model".format(**row.case(seed))

    def learns_tokens(self, name: str) -> bool:
        """Whether the tokenizer of a model that is made is learned from the training texts."""
        return self.configuration.models[name]["made"]["tokenizer"] != "word"

    def recipe(self, name: str) -> dict:
        """Of a model that is made."""
        given = self.configuration
        return {"seed": given["data_seed"], "reading": given["reading"]} | given.models[name]["made"]
