"""Sentences on a decision, written from the decision's data alone."""

from __future__ import annotations

from collections.abc import Iterator

from tune_vfl.analysis.decision import Choice, Decision
from tune_vfl.analysis.formatting import listed, metric, number, sentence, setting, short, short_span

_FIFTHS = ("hardly any", "about a fifth", "about two fifths", "about three fifths", "about four fifths", "nearly all")


def headline(decision: Decision) -> str:
    """Return the decision in one line: ``Deploy marvell budget=2.1 on spambase.``, or why nothing is recommended."""
    if decision.setting is not None:
        return f"Deploy {called(decision.setting)} on {decision.dataset}."
    if decision.compromise is not None:
        return f"A compromise on {decision.dataset}: {called(decision.compromise)} {_given_away(decision.compromise)}."
    if decision.verdict == "not_trusted":
        return f"Nothing is recommended on {decision.dataset} while a check fails."
    if decision.verdict == "nothing_measured":
        return f"No answer yet on {decision.dataset}: {decision.why}."
    return f"No setting qualifies on {decision.dataset}."


def sentences(decision: Decision) -> list[str]:
    """Return the decision in sentences, the headline first, without checks, changes and gaps."""
    found = [headline(decision)]
    if decision.setting is not None:
        found += [f"It is {decision.why}.", *_told(decision, decision.setting), *_others(decision), *_rungs(decision)]
    elif decision.compromise is not None:
        lacks = "; ".join(decision.compromise.lacks)
        limit = "Limit it by `constraints: {leakage: CAP}`, or choose with `--select`."
        found += [f"It is not recommended, as {lacks}, and no constraint bounds it below 1. {limit}", *_rungs(decision)]
        found += [f"The compromise is {decision.why}.", *_told(decision, decision.compromise)]
    elif decision.verdict == "none_qualifies":
        found += [sentence(decision.why), *_nearest(decision)]
    elif decision.verdict == "not_trusted":
        found += [sentence(check.says) for check in decision.failing]
    return found


def called(chosen: Choice) -> str:
    """Return a setting's name and parameters: ``marvell budget=2.1``."""
    return f"{chosen.defense} {setting(chosen.params)}" if chosen.params else chosen.defense


def _given_away(compromise: Choice) -> str:
    if compromise.strongest is None:
        return "was not attacked, so nobody knows what it gives away"
    return (
        f"gives away {_FIFTHS[round(5 * compromise.leakage)]} of what an attacker could not find without the training"
    )


def _rungs(decision: Decision) -> Iterator[str]:
    """Yield the most useful setting at each limit of the leakage."""
    before = None
    for cap, found in ((rung.cap, rung.setting) for rung in decision.ladder):
        if found is None:
            says = "no setting"
        elif decision.setting is not None and found.name == decision.setting.name:
            says = "the recommended one"
        elif before is not None and found.name == before.name:
            says = "the same"
        else:
            kept = "" if found.kept is None else f", keeps {found.kept:.0%} of what the federation brings"
            says = f"{called(found)} ({found.name}), {metric(decision.metric)} {_measured(found)}{kept}"
        yield f"Leakage surely at most {number(cap)}: {says}."
        before = found


def _measured(found: Choice) -> str:
    leakage = short_span(found.leakage, found.leakage_interval, 2)
    return f"{short_span(found.utility, found.utility_interval)} at leakage {leakage}"


def _told(decision: Decision, chosen: Choice) -> Iterator[str]:
    fresh = ", on fresh seeds" if chosen.confirmed else ""
    costs = "" if chosen.loss is None else f", {_loss(chosen)}"
    utility = short_span(chosen.utility, chosen.utility_interval)
    yield f"{called(chosen)} ({chosen.name}): {metric(decision.metric)} {utility}{costs}{fresh}."
    yield from _beside(decision, chosen)
    strongest = chosen.strongest
    if strongest is not None:
        tuned = " tuned against it," if strongest.tuned else ""
        finds = short_span(strongest.advantage, strongest.interval, 2)
        yield f"The strongest attack, {strongest.attack},{tuned} finds {finds}{_undefended_leakage(decision)}."
    leakage = short_span(chosen.leakage, chosen.leakage_interval, 2)
    yield f"Its leakage over all attacks is {leakage}.{_no_less(decision, chosen)}"
    if chosen.cost is not None:
        yield f"Its training takes {number(chosen.cost)} times the undefended one's CPU."


def _loss(chosen: Choice) -> str:
    loss, interval = chosen.loss or 0.0, chosen.loss_interval
    between = "" if interval is None else f" ({short(interval[0])} to {short(interval[1])})"
    return f"costs {short(loss)}{between}" if loss > 0 else f"costs nothing{between}"


def _beside(decision: Decision, chosen: Choice) -> Iterator[str]:
    """Compare the setting with no defense and with the label party alone, which no confirmation measures."""
    if decision.alone is not None:
        who, where = decision.alone.who, " in the search" if chosen.confirmed else ""
        reaches = f"alone reaches {short_span(decision.alone.utility, decision.alone.utility_interval)}{where}"
        if chosen.kept is not None:
            yield f"It keeps {chosen.kept:.0%} of what the federation brings; {who} {reaches}."
        else:
            yield sentence(f"{who} {reaches}: the federation adds nothing that is sure")
    if decision.undefended is not None:
        utility = short_span(decision.undefended.utility, decision.undefended.utility_interval)
        yield f"Without a defense it is {utility}."


def _no_less(decision: Decision, chosen: Choice) -> str:
    """Warn of a setting whose leakage may be that of the undefended model."""
    undefended = None if decision.undefended is None else decision.undefended.leakage_interval
    if undefended is None or chosen.leakage_interval is None or chosen.leakage_interval[1] < undefended[0]:
        return ""
    return " It does not surely lower it."


def _undefended_leakage(decision: Decision) -> str:
    known = decision.undefended
    if known is None or known.leakage is None:
        return ""
    return f", against {short_span(known.leakage, known.leakage_interval, 2)} without a defense"


def _others(decision: Decision) -> Iterator[str]:
    second = decision.runner_up
    if second is not None:
        yield f"Runner-up: {called(second)} ({second.name}), {_measured(second)}."
    for far in decision.far:
        none = f"No setting of {listed(far.defenses, 'or')}"
        within = "" if far.within is None else f"{short(far.within)} {metric(decision.metric)}"
        yield f"{none} comes within {within} of it at no more leakage." if within else f"{none} leaks so little."


def _nearest(decision: Decision) -> Iterator[str]:
    near = decision.nearest
    if near is None:
        return
    lacks = f": {'; '.join(near.lacks)}" if near.lacks else ""
    yield f"Nearest is {called(near)} ({near.name}), {metric(decision.metric)} {_measured(near)}{lacks}."
