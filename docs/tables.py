"""Parts of pages that the site makes from the code at each build: the verbs, the methods, who sees what."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import typer.main
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from pydantic import BaseModel

from docs.kept import notebook
from tune_vfl.attacks.base import ATTACKS, Attack
from tune_vfl.cli.main import app
from tune_vfl.data.base import DATASETS
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.evaluation.grants.base import GRANTS
from tune_vfl.evaluation.portfolios import members
from tune_vfl.models.base import MODELS, ModelOptions
from tune_vfl.registry import Registry
from tune_vfl.spaces.named import named_spaces
from tune_vfl.spec import HORIZONTAL, Federation, Strict

EXAMPLE = re.compile(r"^Example: ([^|\n]+)$", re.MULTILINE)


def defenses() -> list[str]:
    """Return the classes of all defenses, in the order of their names."""
    return classes(DEFENSES, "tune_vfl.defenses", "(params, *, num_classes, embedding_dims, mode='split')", published)


def attacks() -> list[str]:
    """Return the classes of all attacks, in the order of their names."""
    return classes(ATTACKS, "tune_vfl.attacks", "(params=None)")


def published(defense: str) -> list[str]:
    """Return the published settings of a defense that a search tries first, with their sources."""
    points = [point for space in named_spaces(defense).values() for point in space.published if point.params]
    lines = [f"| {' '.join(f'`-p {k}={v}`' for k, v in p.params.items())} | {p.source} |" for p in points]
    return ["", "| published setting | source |", "|---|---|", *lines] if lines else []


def classes(
    registry: Registry, package: str, made_by: str, more: Callable[[str], list[str]] = lambda _: []
) -> list[str]:
    """Return each class of a registry with the options that a spec gives it, and more of it by its name."""
    lines = []
    for name in registry.names():
        cls = registry[name]
        lines += described(name, cls, f"{package}.{cls.__name__}{made_by}")
        lines += [*options_of(cls.Params, set(), "parameter"), *more(name), ""]
    return lines


def described(name: str, cls: Any, signature: str) -> list[str]:
    """Return the part of one class: its summary, its source, and its docstring."""
    lines = [f"## {name}", "", f"{cls.summary[0].upper()}{cls.summary[1:]}. {cls.reference}", ""]
    return [*lines, "```{eval-rst}", f".. autoclass:: {signature}", "   :no-index-entry:", "```", ""]


def options_of(model: type[BaseModel], without: set[str], word: str = "option") -> list[str]:
    """Return the table of a model's fields but for some, or nothing where there are none."""
    lines = []
    for field, info in model.model_fields.items():
        if field not in without:
            default = "required" if info.is_required() else f"`{info.get_default(call_default_factory=True)}`"
            lines.append(f"| `{field}` | {default} | {info.description or ''} |")
    return [f"| {word} | default | |", "|---|---|---|", *lines] if lines else []


def models() -> list[str]:
    """Return all architectures, each with the options that are not those of all networks."""
    lines = ["| option of all networks | |", "|---|---|"]
    lines += [f"| `{field}` | {info.description} |" for field, info in ModelOptions.model_fields.items()]
    for name in MODELS.names():
        cls = MODELS[name]
        lines += described(name, cls, f"{cls.__module__}.{cls.__name__}()")
        lines += [*options_of(cls.Options, set(ModelOptions.model_fields)), ""]
    return lines


def datasets() -> list[str]:
    """Return all data sets, each with where its files are from, and its options."""
    lines = []
    for name in DATASETS.names():
        cls = DATASETS[name]
        source = f" From {cls.source}" if getattr(cls, "source", None) else ""
        lines += [f"## {name}", "", f"{cls.summary[0].upper()}{cls.summary[1:]}. {cls.reference}.{source}", ""]
        lines += [*options_of(cls.Options, set()), ""]
    return lines


def table_options() -> list[str]:
    """Return the options of a table of one's own, in one file or one a party."""
    return options_of(DATASETS["csv"].Options, set())


def portfolios() -> list[str]:
    """Return the members of the portfolios of attacks on labels, and with which parameters each is in them."""
    lines = ["| attack | in `default` | in `thorough` |", "|---|---|---|"]
    default, thorough = (
        {attack.name: _changed(attack) for attack in members(name, Federation())} for name in ("default", "thorough")
    )
    names = [name for name in ATTACKS if name in default or name in thorough]
    return lines + [f"| `{name}` | {default.get(name, '-')} | {thorough.get(name, '-')} |" for name in names]


def _changed(attack: Attack[Strict]) -> str:
    """Return the parameters of an attack that are not its defaults."""
    own = type(attack).Params().model_dump()
    other = [(k, v) for k, v in attack.params.model_dump().items() if v != own[k]]
    return "; ".join(f"`{k}: {list(v) if isinstance(v, tuple) else v}`" for k, v in other) or "defaults"


def seen() -> list[str]:
    """Return who runs each attack, what it wants, and which knowledge its threat model grants it."""
    lines = ["| attack | run by | wants | sees | |", "|---|---|---|---|---|"]
    for name in ATTACKS.names():
        can = ATTACKS[name].capabilities
        active = "the server" if can.federations == HORIZONTAL else "the label party"
        by = active if can.who == "active" else "a passive party"
        marks = ["takes part in the training"] * can.acts + [
            "an upper bound: it has statistics of the labels"
        ] * can.oracle
        sees = ", ".join(f"`{grant}`" for grant in sorted(can.sees))
        lines.append(f"| `{name}` | {by} | {can.goal} | {sees} | {'; '.join(marks)} |")
    return lines


def grants() -> list[str]:
    """Return what each grant hands to an attack."""
    rows = [f"| `{name}` | {(GRANTS[name].__doc__ or '').partition(chr(10))[0]} |" for name in GRANTS.names()]
    return ["| grant | what it is |", "|---|---|", *rows]


def changed() -> list[str]:
    """Return who runs each defense, and which of the values that leave a party it changes."""
    lines = ["| defense | run by | changes | classes |", "|---|---|---|---|"]
    for name in [name for name in DEFENSES.names() if name != "none"]:
        can = DEFENSES[name].capabilities
        by = {"active": "the label party", "passive": "the passive parties", "both": "all parties"}[can.run_by]
        lines.append(f"| `{name}` | {by} | {', '.join(sorted(can.protects))} | {can.classes} |")
    return lines


def verbs() -> list[str]:
    """Return each verb with the first paragraph of its help, and the example there."""
    lines = ["| verb | does | example |", "|---|---|---|"]
    for name, command in typer.main.get_command(app).commands.items():
        for verb, told in [(name, command), *((f"{name} {n}", c) for n, c in getattr(command, "commands", {}).items())]:
            does = told.help.partition("\n\n")[0].replace("\n", " ")
            lines += [f"| `{verb}` | {does} | {example} |" for example in EXAMPLE.findall(told.help)]
    return lines


PAGES: dict[str, Callable[[], list[str]]] = {
    "defenses": defenses,
    "attacks": attacks,
    "portfolios": portfolios,
    "seen": seen,
    "grants": grants,
    "changed": changed,
    "verbs": verbs,
    "notebook": notebook,
    "models": models,
    "datasets": datasets,
    "table_options": table_options,
}


class Generated(Directive):
    """A page's part that is made from the code: the Markdown of one of :data:`PAGES`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the lines as if they stood in the page."""
        lines = PAGES[self.arguments[0]]()
        parent = nodes.section()
        self.state.nested_parse(StringList(lines, source=__file__), self.content_offset, parent, match_titles=True)
        return parent.children
