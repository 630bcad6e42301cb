"""Plans of searches from raw specs: parse, resolve, find the space of each study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tune_vfl.driver.starting import with_starts
from tune_vfl.errors import SpecError, did_you_mean
from tune_vfl.records.campaigns import Campaign, PlannedCampaign, Skipped
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.shares import even_shares
from tune_vfl.registry import Registry
from tune_vfl.spec import Named, StudySpec, parse
from tune_vfl.spec.constraints import OF_ATTACK, impossible
from tune_vfl.spec.listed import as_list
from tune_vfl.spec.raw import expand, is_campaign, plain, read_yaml
from tune_vfl.spec.study import PORTFOLIOS

CampaignLike = PlannedCampaign | PlannedStudy | StudySpec | Mapping[str, Any] | str | Path


def plan(raw: Mapping[str, Any]) -> PlannedCampaign:
    """Plan a raw spec, its settings laid over it.

    Raises:
        SpecError: with every problem; of several studies only when names or parameters are wrong, none is possible, or
            there are fewer trials than settings that come first.
    """
    spec = with_all_defenses(raw)
    expanded = expand(spec)
    if len(expanded) == 1 and not is_campaign(spec):
        return PlannedCampaign.of(*_measured(with_starts([plan_study(read_study(expanded[0]))])))
    if not raw.get("study"):
        raise SpecError(["study: is required and missing: it is the campaign's name"])
    studies: list[PlannedStudy] = []
    skipped: list[Skipped] = []
    for one in refuse_mistakes(expanded):
        possible, unfit = _fitting(one)
        skipped += unfit
        if possible is not None:
            studies.append(possible)
    if not studies:
        raise SpecError([str(entry) for entry in skipped])
    studies = with_starts(_measured(studies))
    asked = (raw.get("budget") or {}).get("trials")
    each = studies[0].spec.budget.trials
    trials = each * len(studies) if asked is None else each
    name = str(raw["study"])
    return PlannedCampaign(name, shared_out(studies, trials, name), trials, dict(raw), tuple(skipped))


def shared_out(studies: Sequence[PlannedStudy], trials: int, campaign: str) -> tuple[PlannedStudy, ...]:
    """Return studies as the parts of a campaign, each with its share of the trials.

    Raises:
        SpecError: for fewer trials than settings that come first.
    """
    shares = even_shares([len(s.first) for s in studies], [s.space.size for s in studies], trials)
    return tuple(
        replace(study.changed(trials=max(1, share)), campaign=campaign)
        for study, share in zip(studies, shares, strict=True)
    )


def changed(found: PlannedCampaign, *, trials: int | None = None, name: str | None = None) -> PlannedCampaign:
    """Return the plan with another budget of finished trials or another name.

    Raises:
        SpecError: for an invalid name or budget, or for fewer trials than settings that come first.
    """
    if trials is None and name is None:
        return found
    if found.lone:
        return PlannedCampaign.of(*with_starts([found.studies[0].changed(trials=trials, name=name)]))
    if name is not None:  # its studies are called after it
        found = plan({**found.spec, "study": name})
    if trials is None:
        return found
    spec = {**found.spec, "budget": {**(found.spec.get("budget") or {}), "trials": trials}}
    return replace(found, studies=shared_out(found.studies, trials, found.name), trials=trials, spec=spec)


def with_more(campaign: PlannedCampaign, trials: int | None) -> PlannedCampaign:
    """Return a plan with a larger budget of finished trials in all; the same plan for a smaller one.

    Raises:
        SpecError: for fewer trials than settings that come first.
    """
    fewer = trials is None or trials <= campaign.trials  # each study keeps its share
    return campaign if fewer else changed(campaign, trials=trials)


def with_all_defenses(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a raw spec with the names of all defenses in the place of ``defense: all``."""
    from tune_vfl.defenses.base import DEFENSES

    everyone = [name for name in DEFENSES.names() if name != "none"]
    spec = dict(raw)
    if spec.get("defense") == "all":
        spec["defense"] = everyone
    if isinstance(spec.get("matrix"), Mapping) and spec["matrix"].get("defense") == "all":
        spec["matrix"] = {**spec["matrix"], "defense": everyone}
    return spec


def planned_campaign(spec: CampaignLike) -> PlannedCampaign:
    """Return the plan of a spec in any form; a single study is a campaign of one, and a plan is returned unchanged.

    Args:
        spec: a plan, a spec, a mapping of the same form, or the path of a YAML file.

    Raises:
        SpecError: with every problem.
    """
    if isinstance(spec, (Campaign, PlannedStudy)):
        return Campaign.of(spec)
    if isinstance(spec, StudySpec):
        return Campaign.of(*_measured(with_starts([plan_study(spec)])))
    if isinstance(spec, (str, Path)):
        return plan(read_yaml(Path(spec)))
    if not isinstance(spec, Mapping):
        raise SpecError(f"expected a spec as a mapping, or the path of a YAML file, got {type(spec).__name__}")
    return plan(plain(spec))


def plan_study(spec: StudySpec) -> PlannedStudy:
    """Resolve a spec and find its search space.

    Raises:
        SpecError: with every problem.
        DataError: when the data cannot be read.
    """
    from tune_vfl.evaluation.coverage import coverage_of
    from tune_vfl.evaluation.resolving import open_task
    from tune_vfl.samplers.base import unknown_sampler
    from tune_vfl.spaces.named import space_of, space_problems

    problems = [*impossible(spec.constraints), *unknown_sampler(spec.sampler.name)]
    try:
        task = open_task(spec, rows="selection")
    except SpecError as error:
        problems = [*error.problems, *space_problems(spec), *problems]
        raise SpecError(list(dict.fromkeys(problems)), error.unfit) from error
    try:
        space = space_of(spec, task.cell, task.dataset)
    except SpecError as error:
        raise SpecError([*error.problems, *problems]) from error
    if problems:
        raise SpecError(problems)
    covers = coverage_of(spec, task.cell)
    return PlannedStudy(spec, task.cell, space, data=task.dataset.fingerprint, coverage=covers)


def _measured(studies: Sequence[PlannedStudy]) -> Sequence[PlannedStudy]:
    """Return studies, unless there is a constraint on an attack that none of them runs: no setting is known to keep it.

    Raises:
        SpecError: naming each.
    """
    run = list(dict.fromkeys(attack.name for study in studies for attack in study.cell.attacks))
    asked = {name: found["attack"] for name in studies[0].spec.constraints if (found := OF_ATTACK.fullmatch(name))}
    problems = [
        f"constraints.{name}: attack {attack!r} is not run, so that no setting is known to keep it; add it to attacks, "
        f"or leave the constraint out.{did_you_mean(attack, run)} Run: {', '.join(run)}."
        for name, attack in asked.items()
        if attack not in run
    ]
    if problems:
        raise SpecError(problems)
    return studies


def read_study(raw: Mapping[str, Any]) -> StudySpec:
    """Parse one study.

    Raises:
        SpecError: with every problem, unknown names among them, also of a spec that cannot be parsed.
    """
    try:
        return parse(raw)
    except SpecError as error:
        raise SpecError(list(dict.fromkeys([*error.problems, *_unknown_names(raw)]))) from error


def _unknown_names(raw: Mapping[str, Any]) -> Iterator[str]:
    from tune_vfl.attacks.base import ATTACKS
    from tune_vfl.data.base import DATASETS
    from tune_vfl.defenses.base import DEFENSES
    from tune_vfl.models.base import MODELS
    from tune_vfl.samplers.base import SAMPLERS

    attacks = as_list(raw.get("attacks"))
    singles = [a for a in (attacks if isinstance(attacks, list) else ()) if a not in PORTFOLIOS]
    asked: list[tuple[Registry[Any], Any]] = [(ATTACKS, a) for a in singles]
    asked += [(DATASETS, raw.get("dataset")), (MODELS, raw.get("model")), (DEFENSES, raw.get("defense"))]
    asked.append((SAMPLERS, raw.get("sampler")))
    for registry, entry in asked:
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        if isinstance(name, str) and name not in registry:
            yield str(registry.unknown(name))


def _fitting(spec: StudySpec) -> tuple[PlannedStudy | None, list[Skipped]]:
    """Plan a study of a matrix, without the attacks that do not fit its data set and model."""
    try:
        return plan_study(spec), []
    except SpecError as error:
        problems, unfit = error.problems, error.unfit
    fitting = tuple(attack for attack in spec.attacks if attack.name not in unfit)
    others = [p for p in problems if not any(p in why for why in unfit.values())]
    if others or not fitting:  # a problem with every attack is the reason; those of single attacks would hide it
        return None, [Skipped(spec.study, None, tuple(others or problems))]
    possible, more = _fitting(spec.model_copy(update={"attacks": fitting}))
    return possible, [*(Skipped(spec.study, name, tuple(why)) for name, why in unfit.items()), *more]


def refuse_mistakes(raws: Sequence[Mapping[str, Any]]) -> list[StudySpec]:
    """Parse raw specs and refuse unknown names and wrong options, without loading data.

    Raises:
        SpecError: with the problems of all specs.
    """
    specs, problems = [], []
    for raw in raws:
        try:
            specs.append(read_study(raw))
        except SpecError as error:
            problems += error.problems
    problems += [p for spec in specs for p in _mistakes(spec)]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return specs


def _mistakes(spec: StudySpec) -> list[str]:
    """Return unknown names and wrong options of a spec, without a check of which methods fit together."""
    from tune_vfl.attacks.base import ATTACKS
    from tune_vfl.data.base import DATASETS
    from tune_vfl.defenses.base import DEFENSES
    from tune_vfl.models.base import MODELS
    from tune_vfl.samplers.base import unknown_sampler

    problems = _option_problems(DEFENSES, Named(name=spec.defense.name, **spec.defense.params), "defense.params")
    for attack in spec.attacks:
        if attack.name not in PORTFOLIOS:
            problems += _option_problems(ATTACKS, attack, f"attacks.{attack.name}")
    problems += _option_problems(DATASETS, spec.dataset, "dataset", "Options", ("metric",))
    if spec.model.name is not None:
        problems += _option_problems(MODELS, Named(name=spec.model.name, **spec.model.options), "model", "Options")
    return [*problems, *impossible(spec.constraints), *unknown_sampler(spec.sampler.name)]


def _option_problems(
    registry: Registry[Any], named: Named, place: str, options: str = "Params", elsewhere: Sequence[str] = ()
) -> list[str]:
    from tune_vfl.spec import validated

    try:
        declared = getattr(registry[named.name], options)
        validated(declared, {k: v for k, v in named.options.items() if k not in elsewhere}, place)
    except SpecError as error:
        return error.problems
    return []
