"""Reports: the numbers in their tables, and what they say of a study."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from reports.story import secrets, story
from reports.tables import attacks_frame, cap_frame, tables
from tests.helpers.reports import write_report
from tests.helpers.studies import made_up_outcome, made_up_study, made_up_trial
from tune_vfl.evaluation.portfolios import members
from tune_vfl.spec import Named


def study_of(*points, **kwargs):
    """A study whose ok trials have exactly these (utility, attack success)."""
    trials = [made_up_trial(n, scale=10.0**-n, outcome=made_up_outcome(*p)) for n, p in enumerate(points)]
    return replace(made_up_study(2, **kwargs), trials=tuple(trials))


def by_all(record):
    """The same study, as if every attack of a competent adversary had been run on it."""
    listed = (*record.cell.attacks, *(Named(name=a.name) for a in members("default", record.cell.federation)))
    return replace(record, cell=record.cell.model_copy(update={"attacks": listed}))


# Tables


def test_the_papers_scalars_stand_in_the_tables():
    names_classes = {"top1": 0.6}
    trials = []
    for n, (utility, success) in enumerate([(0.9, 0.8), (0.8, 0.6)]):
        outcome = made_up_outcome(utility, success)
        attacks = {
            name: score.model_copy(update={"extra": names_classes if name == "mean" else {}})
            for name, score in outcome.attacks.items()
        }
        trials.append(made_up_trial(n, scale=0.1, outcome=outcome.model_copy(update={"attacks": attacks})))
    record = replace(made_up_study(2), trials=tuple(trials))
    [row] = cap_frame([record]).to_dict("records")
    assert (row["study"], row["attack"], row["settings"]) == (record.name, "mean", 2)
    assert row["cap"] == pytest.approx((0.9 * 0.4 + 0.8 * 0.4) / 2)
    assert row["std"] == pytest.approx(0.4 * 0.1 / 2**0.5)
    listed = attacks_frame([record]).query("number == 1").set_index("attack")
    assert listed.loc["mean", "cap"] == pytest.approx(0.8 * 0.4)
    assert listed["cap"].isna().sum() == 1
    assert listed.loc["norm", "utility_per_leak"] > 1


def test_csv_comes_back_as_it_was():
    for name, frame in tables([made_up_study()]).items():
        back = pd.read_csv(io.StringIO(frame.to_csv(index=False)), keep_default_na=False, na_values=[""])
        assert list(back.columns) == list(frame.columns), name
        for column in frame.select_dtypes("number"):
            ours, theirs = frame[column].astype(float), back[column].astype(float)
            assert np.array_equal(ours, theirs, equal_nan=True), (name, column)


# Words


def test_nothing_is_recommended_before_a_competent_adversary_was_tried():
    told = story(study_of((0.90, 0.80), (0.88, 0.62)))
    assert told.failing == [
        (
            "Not tried: direction, grad_cluster, gradient_completion, matched_filter, pmc and "
            "spectral. Search with `attacks: default` before you choose."
        )
    ]
    assert told.answer.startswith("Nothing is recommended")
    assert story(by_all(study_of((0.90, 0.80), (0.88, 0.62)))).failing == []


def test_nothing_is_recommended_where_the_undefended_model_had_not_learned_to_the_end(tmp_path):
    record = by_all(study_of((0.90, 0.80), (0.88, 0.62)))
    early = [v - 0.05 for v in record.baseline.utility.values]
    still = replace(record, baseline=record.baseline.model_copy(update={"utility_before_end": early}))
    (said,) = story(still).failing
    assert "+0.0500 over the last 10% of the steps; train longer" in said
    page = write_report([still], tmp_path / "report").read_text(encoding="utf-8")
    assert page.index("train longer") < page.index("Nothing is recommended")


def test_the_label_party_alone_is_a_line_and_what_settings_keep_of_the_gain_a_column(tmp_path):
    record = by_all(study_of((0.90, 0.80), (0.88, 0.62)))
    gain = [v - 0.1 for v in record.baseline.utility.values]
    whole = replace(record, alone=tuple(gain))
    alone = story(whole).joint.points[0].table.alone
    assert (alone.utility, alone.gain) == pytest.approx((0.865, 0.1))
    assert alone.kept(0.90) == pytest.approx(0.35)
    page = write_report([whole], tmp_path / "report").read_text(encoding="utf-8")
    assert "the label party alone, 0.865" in page
    assert '<td class="n">35%</td>' in page
    nothing = replace(record, alone=tuple(record.baseline.utility.values))
    assert any("nothing to protect it for" in said for said in story(nothing).failing)
    assert story(nothing).joint.points[0].gain_kept is None
    worse = replace(record, alone=tuple(v + 0.02 for v in record.baseline.utility.values))
    assert any("can be worse than none; try fewer epochs" in said for said in story(worse).failing)


def test_the_question_names_what_the_attacks_are_after():
    record = study_of((0.9, 0.8))
    assert "protects the labels of" in story(record).asked
    wmi = record.cell.attacks[0].model_copy(update={"name": "wmi"})
    both = replace(record, cell=record.cell.model_copy(update={"attacks": (*record.cell.attacks, wmi)}))
    assert "protects the labels and features of" in story(both).asked
    features = replace(record, cell=record.cell.model_copy(update={"attacks": (wmi,)}))
    assert (secrets([features]), secrets([features, record])) == ("features", "labels and features")


def test_a_defense_of_gradients_tried_by_gradient_attacks_alone_is_pointed_out():
    record = made_up_study()
    assert any("protects gradients only" in w and "add the attack pmc" in w for w in story(record).warnings)
    other = replace(record, cell=record.cell.model_copy(update={"defense": "label_dp"}))
    assert not any("protects gradients only" in w for w in story(other).warnings)
