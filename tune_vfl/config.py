"""The exported configuration: the best setting of a search, for other people's training loops. No ray, no mlflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from tune_vfl.defenses.base import DEFENSES, Defense, defense_params
from tune_vfl.errors import ConfigError, SpecError, UsageError
from tune_vfl.evaluation.own_loop import OwnLoop
from tune_vfl.evaluation.own_rounds import OwnRounds
from tune_vfl.evaluation.task import Task
from tune_vfl.machine.files import written_out
from tune_vfl.machine.installs import naming_the_install
from tune_vfl.machine.plain_json import load_plain
from tune_vfl.machine.version import VERSION
from tune_vfl.outcome import Outcome
from tune_vfl.spec import Federation, FederationName, Named, Strict, Training, explain
from tune_vfl.spec.cell import Cell, Mode, RowsUsed
from tune_vfl.spec.raw import read_text
from tune_vfl.spec.study import Threat

CONFIG_SCHEMA: Literal["tune-vfl/config/1"] = "tune-vfl/config/1"

_OF_CELL = ("dataset", "model", "training", "attacks", "seeds", "mode", "num_classes", "federation", "threat", "rows")
"""What an exported setting and the cell that it was measured on both have."""

_BEGINS: dict[FederationName, str] = {"vertical": "own_loop(defense, ...)", "horizontal": "own_rounds(seed=...)"}


class Again(Strict):
    """Results of a confirmation: the chance that the setting stays on the front, 90% intervals, what the search said.

    Attributes:
        seeds: how many fresh seeds it has had.
        stays: the chance that it is on the front.
        utility_interval, leakage_interval: of 90%.
        leakage_upper_90: the one-sided bound by which it is exported.
        searched: utility and leakage as the search measured them.
    """

    seeds: int
    stays: float
    utility_interval: tuple[float, float]
    leakage_interval: tuple[float, float]
    leakage_upper_90: float
    searched: dict[str, float]


class Measured(Strict):
    """Results of the search at this setting, over the seeds.

    Attributes:
        metric: of the utility.
        utility, leakage: means; those of the confirmation where there is one, else those of the search.
        utility_std, leakage_std: standard deviations over the search's seeds.
        attacks: each one's success in the search.
        confirmed: what a confirmation found; None, and not written, where there is none.
    """

    metric: str
    utility: float
    utility_std: float
    leakage: float
    leakage_std: float
    attacks: dict[str, float]
    confirmed: Again | None = None

    @property
    def in_search(self) -> tuple[float, float]:
        """Utility and leakage as the search measured them: what the same training gives again."""
        if self.confirmed is None:
            return self.utility, self.leakage
        return self.confirmed.searched["utility"], self.confirmed.searched["leakage"]

    @model_serializer(mode="wrap")
    def _leave_out_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        return {k: v for k, v in plain.items() if k != "confirmed" or v is not None}


class DefenseSetting(Strict):
    """A defense and all of its parameters."""

    name: str
    params: dict[str, Any] = Field(default_factory=dict)


class ExportedConfig(Strict):
    """One setting of one defense, with what it was measured on.

    Attributes:
        study, trial: where it comes from; ``select`` is how it was chosen from the front.
        defense: the setting.
        dataset, model, training, attacks, seeds, mode, num_classes, federation, threat, rows: what the numbers hold
            for.
        measured: the numbers.
        version: of tune-vfl.
    """

    schema_id: Literal["tune-vfl/config/1"] = Field(CONFIG_SCHEMA, alias="schema")
    study: str
    trial: int
    select: str
    defense: DefenseSetting
    dataset: Named
    model: Named
    training: Training
    attacks: tuple[Named, ...]
    seeds: tuple[int, ...]
    mode: Mode
    num_classes: int
    measured: Measured
    version: str
    federation: Federation = Field(default_factory=Federation)
    threat: Threat = Field(default_factory=Threat)
    rows: RowsUsed = "all"

    @model_serializer(mode="wrap")
    def _leave_out_the_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Earlier versions, which write none of them and refuse all, mean the usual by that.
        usual = {"federation": Federation().model_dump(), "threat": Threat().model_dump(), "rows": "all"}
        return {name: value for name, value in handler(self).items() if name not in usual or value != usual[name]}

    @property
    def cell(self) -> Cell:
        """The one cell that the numbers were measured on, without its search."""
        return Cell(
            defense=self.defense.name,
            fixed=self.defense.params,
            metric=self.measured.metric,
            **{name: getattr(self, name) for name in _OF_CELL},
        )

    @property
    def embedding_dim(self) -> int:
        """The width of each passive party's embedding in the exported model, and of its gradients."""
        from tune_vfl.models.base import build_model

        built = build_model(self.model)
        return built.outputs(self.num_classes) if built.options.top == "none" else built.options.embedding_dim

    @naming_the_install()
    def own_loop(self, defense: Defense, *, seed: int, path: Path | str | None = None) -> OwnLoop:
        """Begin one training in a loop of your own, on the rows and with the starting weights that the search had.

        Attacks that take part in a training (``active``) are not carried out there; the outcome's notes name them.

        Args:
            defense: of :meth:`build_defense`.
            seed: one of ``seeds`` to get the numbers of the search again.
            path: the file of the data set, where it does not lie where it was searched.

        Raises:
            UsageError: for a setting of the horizontal setting, or where a library of ``tune-vfl[search]`` is missing.
            SpecError: when the data set or the model does not take its options.
            DataError: when the data cannot be read.
        """
        from tune_vfl.evaluation.own_loop import OwnLoop

        return OwnLoop(self._task(path, "vertical"), defense, seed=seed)

    @naming_the_install()
    def own_rounds(self, *, seed: int, path: Path | str | None = None) -> OwnRounds:
        """Begin one training of a horizontal federation in a loop of your own: its clients as the search had them.

        Args:
            seed: one of ``seeds`` to get the numbers of the search again.
            path: the file of the data set, where it does not lie where it was searched.

        Raises:
            UsageError: for a setting of the vertical setting, or where a library of ``tune-vfl[search]`` is missing.
            SpecError: when the data set or the model does not take its options.
            DataError: when the data cannot be read.
        """
        from tune_vfl.evaluation.own_rounds import OwnRounds

        params = defense_params(self.defense.name, self.defense.params, num_classes=self.num_classes)
        return OwnRounds(self._task(path, "horizontal"), params, seed=seed)

    def _task(self, path: Path | str | None, federation: FederationName) -> Task:
        """Return the task of the setting, its data at ``path``, for a loop of one kind of federation."""
        from tune_vfl.evaluation.task import Task

        if (name := self.federation.name) != federation:
            raise UsageError(f"this setting is of a {name} federation: use {_BEGINS.get(name, 'your own framework')}")
        cell = self.cell
        if path is not None:
            cell = cell.model_copy(update={"dataset": cell.dataset.model_copy(update={"path": str(path)})})
        return Task.open(cell)

    def outcome(self, loops: Sequence[OwnLoop] | Sequence[OwnRounds]) -> Outcome:
        """Return utility, leakage and every attack's score over the seeds of loops of your own, as a search does.

        Raises:
            UsageError: for a loop that was not measured.
        """
        from tune_vfl.evaluation.own_loop import outcome

        return outcome(loops)

    def build_defense(
        self, *, num_classes: int | None = None, embedding_dims: Sequence[int], mode: Mode | None = None
    ) -> Defense:
        """Build the defense for a training loop of your own.

        Args:
            num_classes: K of your task; the exported one by default.
            embedding_dims: the width of each passive party's embedding.
            mode: ``split``, ``nosplit`` or ``label_only``; the exported one by default.

        Returns:
            A defense without leading axes: call ``setup`` once, then ``labels``, ``loss`` and ``cut_gradient`` every
            step, and ``decode`` at inference. ``wrap_bottom`` and ``wrap_top`` take your models once after ``setup``;
            ``inputs`` takes the rows of a step before ``labels`` does, and needs an object whose ``take(ids)`` gives
            all parties' rows with these ids; ``send_embedding`` gives what a party sends, in training and at inference.
            A defense that leaves one of them out changes nothing there; a loop that leaves out one that a defense has
            is not protected by it.
            Where parties add columns (``labobf``), first ``xs = defense.extend([x_p, x_a], seed=0, part="train")``, and
            build the models for those rows; with ``part="test"`` for rows at inference, whose scores are then
            ``decode_rows(logits, xs)``. The model has one output where ``defense.capabilities.head`` is ``scalar``.

        Raises:
            SpecError: when the defense cannot be used on that task.
        """
        cls = DEFENSES[self.defense.name]
        classes, mode = num_classes or self.num_classes, mode or self.mode
        params = defense_params(cls.name, self.defense.params, num_classes=classes)
        problems = cls.problems(params, num_classes=classes, mode=mode)
        if cls.capabilities.classes == "binary" and classes != 2:
            problems.append(f"defense {cls.name!r} is defined for two classes, got num_classes={classes}")
        if problems:
            raise SpecError(problems)
        return cls(params, num_classes=classes, embedding_dims=embedding_dims, mode=mode)


def export_config(
    cell: Cell, *, study: str, trial: int, select: str, params: dict[str, Any], measured: Measured
) -> ExportedConfig:
    """Make the configuration of one trial; parameters that the trial left at their defaults are written out."""
    full = defense_params(cell.defense, {**params, **cell.fixed}, num_classes=cell.num_classes).model_dump()
    return ExportedConfig(
        schema=CONFIG_SCHEMA,
        study=study,
        trial=trial,
        select=select,
        defense=DefenseSetting(name=cell.defense, params=full),
        measured=measured,
        **{name: getattr(cell, name) for name in _OF_CELL},
        version=VERSION,
    )


def save_config(config: ExportedConfig, path: Path | str) -> Path:
    """Write a configuration as JSON.

    Returns:
        The path written.

    Raises:
        UnwritableError: when the place cannot be written.
    """
    target = Path(path)
    with written_out(target) as draft:
        draft.write_text(json.dumps(config.model_dump(mode="json", by_alias=True), indent=2) + "\n", encoding="utf-8")
    return target


def load_config(path: Path | str) -> ExportedConfig:
    """Load an exported configuration.

    Raises:
        ConfigError: when the file is missing or endless, is not JSON, or is no configuration of a schema known here.

    Example:
        >>> from tune_vfl import load_config
        >>> setting = load_config("best.json")
        >>> defense = setting.build_defense(num_classes=2, embedding_dims=[8])
        >>> defense.name
        'laplace'
    """
    try:
        raw = load_plain(read_text(Path(path)))
    except (OSError, ValueError) as error:
        reason = f"cannot be read as JSON ({error}); give a file that `tune-vfl export` wrote"
        raise ConfigError(f"{path}: {reason}") from error
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if schema != CONFIG_SCHEMA:
        raise ConfigError(
            f"{path}: expected schema {CONFIG_SCHEMA!r}, got {schema!r}; export it again with this version"
        )
    try:
        return ExportedConfig.model_validate(raw)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in explain(error, ExportedConfig))) from error
