"""``tune-vfl quickstart``: a real search on bundled data, from nothing to a report."""

from __future__ import annotations

from typing import Any

import typer

from tune_vfl.cli.options import Json, Storage
from tune_vfl.cli.output import say

# Small enough for two cores and under three minutes, real enough to show a trade that is larger than its error bars;
# five defenses of different kinds, of which some have no setting that is worth choosing.
SPEC: dict[str, Any] = {
    "study": "quickstart",
    "dataset": {"name": "digits"},
    "defense": ["laplace", "gradient_compression", "discrete_sgd", "kdk", "label_dp"],
    "attacks": ["default"],
    "budget": {"trials": 40, "seeds": 3},
    "sampler": {"name": "tpe", "seed": 0},
}


def quickstart(storage: Storage = None, json: Json = False) -> None:
    """Search five defenses on data that come with scikit-learn, print the decision and write a report; in 3 minutes.

    A second run finds the finished campaign in the ledger, and prints and reports it again without training anything.

    Example: `tune-vfl quickstart`
    """
    say("planning a search of five defenses on digits")  # before imports that take seconds
    from tune_vfl.analysis.decide import decisions
    from tune_vfl.cli.search import show_end
    from tune_vfl.driver.api import search
    from tune_vfl.driver.planning import plan
    from tune_vfl.service.reporting import report_studies
    from tune_vfl.service.studies import finished

    campaign = plan(SPEC)
    if finished(campaign, storage):
        say(f"campaign {SPEC['study']!r} is finished already: this is what the ledger holds, nothing is trained again")
    else:
        budget = f"{SPEC['budget']['trials']} settings, {SPEC['budget']['seeds']} seeds each"
        what = f"{len(SPEC['defense'])} defenses on {SPEC['dataset']['name']} against the attacks that fit"
        say(f"searching {what}: {budget}, and no defense at all; Ctrl-C stops it cleanly")
    ended = search(campaign, storage=storage)
    code = show_end(ended, json=json)
    deployed = all(decision.setting for decision in decisions(ended.record()).values())
    page = report_studies([ended.name], storage=storage)
    select = "" if deployed else " --select STUDY#NUMBER"
    say(
        f"report: {page} (open it in a browser)\n"
        "MLflow: `tune-vfl ui`, then open the link that it prints and filter runs by "
        "tags.`tune_vfl.campaign_pareto` = 'true'\n"
        f"use it: `tune-vfl export {SPEC['study']}{select} -o best.json`"
    )
    raise typer.Exit(code)
