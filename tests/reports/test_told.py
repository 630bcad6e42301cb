"""What a report says of a study, sentence by sentence, and what the files of its tables hold."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from reports.rows import study_rows
from reports.story import commands, options, story
from reports.tables import attacks_frame, outcomes_frame, table_files, table_text, to_latex, to_markdown, trials_frame
from tests.helpers.campaigns import UNDEFENDED, attack_of, part_of, steady
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import Named

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))


def study(*points: Any, **fields: Any) -> StudyRecord:
    return part_of("laplace", points or LAPLACE, **fields)


# A study


def test_the_question_and_the_answer_with_its_numbers() -> None:
    told = story(study())
    assert told.asked == (
        "Which setting of laplace protects the labels of breast_cancer from norm and pmc at the least cost in AUC? "
        "Model mlp, each setting measured with 3 seeds."
    )
    knee = told.joint.knee
    assert knee is not None
    low, high = knee.leakage_interval or (0.0, 0.0)
    assert told.answer == (
        f"3 of 3 measured settings are worth choosing from. The best compromise is scale={knee.number + 1} "
        f"(trial {knee.number}): it costs {UNDEFENDED[0] - knee.utility:.3f} AUC "
        f"({knee.utility:.3f} against 0.950 undefended) and takes leakage from 0.900 to {knee.leakage:.3f} "
        f"(90% interval {low:.3f} to {high:.3f}, before it is confirmed)."
    )


def test_answers_without_a_result_a_model_or_a_loss() -> None:
    assert story(part_of("laplace", [])).answer == "No trial has finished yet."
    lost = [Outcome.failed("oom", "full")] * 2
    assert story(part_of("laplace", lost)).answer == "No answer yet: none of 2 finished trials came to a result."
    assert story(part_of("laplace", lost[:1])).answer == "No answer yet: none of 1 finished trial came to a result."
    better = story(study((0.96, 0.95))).answer
    assert "it costs no AUC (0.960 against 0.950 undefended)" in better
    assert "does not lower leakage (0.900 undefended, 0.950 with it)" in better
    assert "interval" not in better
    failing = story(study(baseline=None))
    assert failing.answer == "Nothing is recommended while a check fails. 3 of 3 measured settings are on the front."
    assert failing.failing == ["The undefended model was not measured, or not to an end."]


def test_warnings_one_by_one() -> None:
    plain = story(study((0.94, 0.6), (0.90, 0.3)))
    assert not any(w.startswith(("This study", "No better", "Attack too", "Every", "One seed")) for w in plain.warnings)
    owed = story(study(running=1)).warnings[0]
    assert owed == "This study is not finished: 1 trial is still owed, and the front may move."
    several = story(study(running=1, waiting=2)).warnings[0]
    assert several == "This study is not finished: 3 trials are still owed, and the front may move."
    useless = story(study((0.94, 0.6), (0.5, 0.05), (0.45, 0.01)))
    said = next(w for w in useless.warnings if w.startswith("No better than a guess"))
    assert said.startswith(
        "No better than a guess: trials 1 and 2 of the front are as useful as a constant answer or less (AUC 0.500)."
    )
    one = next(w for w in story(study((0.94, 0.6), (0.5, 0.05))).warnings if w.startswith("No better"))
    assert one.startswith("No better than a guess: trial 1 of the front is as useful")
    assert "That is so of the knee too" not in one
    only = next(w for w in story(study((0.45, 0.05))).warnings if w.startswith("No better"))
    assert only.endswith(" That is so of the knee too: choose another setting, or none.")
    little = story(study(baseline=steady(0.95, 0.04, seeds=10)))
    assert any("almost nothing even in the undefended model (leakage 0.040)" in w for w in little.warnings)
    single = study()
    alone = replace(single, cell=single.cell.model_copy(update={"seeds": (0,)}))
    assert (
        "One seed: there are no error bars, and small differences between settings are chance." in story(alone).warnings
    )


def weak_at(utility: float, leakage: float, *names: str) -> Outcome:
    found = steady(utility, leakage)
    attacks = {n: s.model_copy(update={"weak_attack": n in names}) for n, s in found.attacks.items()}
    return found.model_copy(update={"attacks": attacks})


def test_weak_attacks_are_named_with_the_trials_of_the_front() -> None:
    record = study(weak_at(0.94, 0.6, "pmc"), weak_at(0.90, 0.3, "pmc"), weak_at(0.80, 0.25))
    (said,) = [w for w in story(record).warnings if "weak" in w]
    assert said.startswith("Attack too weak: pmc on trials 0 and 1 of the front found less than the same attack finds")
    whole = study(weak_at(0.94, 0.6, "norm", "pmc"))
    found = [w for w in story(whole).warnings if "weak" in w]
    assert found[0] == "Every attack was too weak at the knee: its leakage says nothing about the defense."
    assert [w.split(" of the front")[0] for w in found[1:]] == [
        "Attack too weak: norm on trial 0",
        "Attack too weak: pmc on trial 0",
    ]
    little = [
        w for w in story(replace(whole, baseline=steady(0.95, 0.04, seeds=10))).warnings if "weak" in w or "al" in w
    ]
    assert little[0].startswith("The attacks find almost nothing"), "what spoils all the others comes first"
    assert little[1].startswith("Every attack was too weak")
    behind = study(weak_at(0.94, 0.6), weak_at(0.90, 0.7, "pmc"))
    assert not any("weak" in w for w in story(behind).warnings), "what is not on the front is not chosen"


def test_remarks_commands_and_options() -> None:
    noted = study(
        steady(0.9, 0.3).model_copy(update={"notes": ["a", "b"]}), steady(0.8, 0.2).model_copy(update={"notes": ["b"]})
    )
    assert [r for r in story(noted).remarks if r in {"a", "b"}] == ["a", "b"], "each once"
    bound = attack_of([0.3, 0.3, 0.3]).model_copy(update={"upper_bound": True})
    oracle = study(steady(0.9, 0.3).model_copy(update={"attacks": {"norm": bound}}))
    assert (
        "norm: an upper bound, which counts: by an oracle, or a variant that the attacker could not have chosen."
        in story(oracle).remarks
    )
    assert dict(commands("my study", 30))["spend more trials"] == "tune-vfl resume 'my study' --trials 60"
    assert dict(commands("s", 1))["measure the front again, with fresh seeds"] == "tune-vfl confirm s --seeds 10"
    assert options(Named(name="mlp")) == "mlp"
    assert options(Named.model_validate({"name": "cnn", "channels": [4, 6]})) == "cnn (channels=[4, 6])"


def test_a_study_s_own_front_as_texts() -> None:
    record = study(weak_at(0.94, 0.6, "pmc"), (0.90, 0.3), (0.85, 0.5))
    told = story(record)
    rows = study_rows(told)
    assert [r["number"] for r in rows.front] == [1, 0], "by rising leakage, and what lies behind is left out"
    first = rows.front[0]
    sure = told.joint.points[1].sure
    low, high = sure.utility_interval or (0.0, 0.0)
    assert first["utility"] == f"0.900 ({low:.3f} to {high:.3f})"
    assert (first["key"], first["setting"], first["gain_kept"]) == ("camp-breast_cancer-laplace#1", "scale=2", "75%")
    assert first["leakage_worst_seed"] == f"{sure.leakage_worst_seed:.3f}"
    assert first["attacks"] == {"norm": "0.650 ± 0.001", "pmc": "0.575 ± 0.001"}
    assert [r["weak"] for r in rows.front] == ["", "pmc"]
    assert [r["knee"] for r in rows.front] == [p is told.joint.knee for p in told.joint.by_leakage]
    assert (rows.attacks, rows.measures, rows.bounded) == (["norm", "pmc"], "leak AUC", False)
    assert rows.undefended is not None
    assert rows.undefended["gain_kept"] == "100%"
    bare = replace(record, baseline=None, alone=())
    assert study_rows(story(bare)).undefended is None
    assert study_rows(story(bare)).front[0]["gain_kept"] == "–"
    bound = attack_of([0.3, 0.3, 0.3]).model_copy(update={"upper_bound": True})
    oracle = study(steady(0.9, 0.3).model_copy(update={"attacks": {"norm": bound}}))
    assert study_rows(story(oracle)).bounded
    assert study_rows(story(oracle)).front[0]["attacks"]["norm"].endswith(" ≤")


def test_the_points_of_a_study_and_its_undefended_model() -> None:
    joint = story(study(weak_at(0.94, 0.6, "pmc"), (0.90, 0.3), (0.85, 0.5))).joint
    first = joint.points[0]
    assert first.weak == ("pmc",)
    assert (first.utility, first.leakage) == pytest.approx((0.94, 0.6))
    assert joint.undefended is not None
    assert (joint.undefended.utility, joint.undefended.leakage) == pytest.approx(UNDEFENDED, abs=1e-3)
    lost = story(study(baseline=Outcome.failed("diverged", "NaN"))).joint
    assert lost.undefended is None


# Files


def test_a_cell_as_a_reader_sees_it() -> None:
    values = [None, pd.NA, float("nan"), True, False, 0.123456, 3, "word"]
    assert [table_text(v) for v in values] == ["–", "–", "–", "yes", "no", "0.123", "3", "word"]


def test_trials_have_their_rank_time_and_what_they_retry() -> None:
    record = study((0.94, 0.6), (0.90, 0.3), (0.85, 0.5), Outcome.failed("oom", "full"))
    last = replace(record.trials[3], retry_of=1)
    frame = trials_frame([replace(record, trials=(*record.trials[:3], last))])
    assert frame["rank"].tolist()[:3] == [0, 0, 1]
    assert frame["rank"].isna().tolist() == [False, False, False, True]
    assert frame["outcome"].tolist() == ["ok", "ok", "ok", "oom"]
    assert frame["reason"].tolist()[3] == "full"
    assert frame["seconds"].tolist() == [1.0] * 4
    assert frame["retry_of"].tolist()[3] == 1
    assert frame["utility"].tolist()[:3] == pytest.approx([0.94, 0.90, 0.85])
    assert frame["utility_std"].tolist()[0] == pytest.approx(0.001)
    assert frame["attack.pmc"].tolist()[0] == pytest.approx(0.65)
    assert list(trials_frame([part_of("laplace", [])]).columns)[:4] == ["study", "number", "outcome", "reason"]


def test_reasons_are_counted_and_attacks_listed_with_their_floors() -> None:
    lost = [Outcome.failed("oom", why) for why in ("full", "full", "other", "")]
    frame = outcomes_frame([study(*LAPLACE, *lost)])
    assert frame["outcome"].tolist() == ["ok", "oom"]
    assert frame["trials"].tolist() == [3, 4]
    assert frame["reasons"].tolist() == ["", "full (2); other"]
    attacks = attacks_frame([study((0.94, 0.6), (0.90, 0.7))])
    assert attacks["attack"].tolist() == ["norm", "pmc"] * 2, "undefended, then the front"
    assert attacks["number"].isna().tolist() == [True, True, False, False]
    row = attacks.iloc[2]
    assert [row[n] for n in ("success", "advantage", "floor", "guess")] == pytest.approx([0.8, 0.6, 0.5, 0.5])
    assert row["success_std"] == pytest.approx(0.0005)
    assert row["advantage_std"] == pytest.approx(0.001)
    assert (row["metric"], row["variant"], row["upper_bound"], row["weak_attack"]) == ("leak_auc", "v", False, False)


def test_a_table_as_files_of_three_kinds() -> None:
    frame = pd.DataFrame({"name": ["a_b", "c|d\ne & 5%"], "n": [0.5, None]})
    files = table_files({"mine": frame})
    assert sorted(files) == ["mine.csv", "mine.md", "mine.tex"]
    assert files["mine.csv"].splitlines()[:2] == ["name,n", "a_b,0.5"]
    assert files["mine.md"] == "| name | n |\n| --- | --- |\n| a_b | 0.5 |\n| c\\|d e & 5% | – |\n"
    assert files["mine.tex"] == (
        "% needs \\usepackage{booktabs}\n\\begin{tabular}{lr}\n\\toprule\nname & n \\\\\n\\midrule\n"
        "a\\_b & 0.5 \\\\\nc|d e \\& 5\\% & -- \\\\\n\\bottomrule\n\\end{tabular}\n"
    )
    empty = frame.iloc[:0]
    assert to_markdown(empty) == "| name | n |\n| --- | --- |\n"
    assert to_latex(empty).count("\\\\") == 1


def test_a_text_of_a_stranger_is_shown_in_a_table_and_obeyed_by_nobody() -> None:
    said = "\x1b]52;c;ZXZpbA==\x07<script>alert(1)</script>\u202e\x1f\x1e\r"
    files = table_files({"mine": pd.DataFrame({f"attack {said}": [said], "n": [0.5]})})
    for text in files.values():
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert "script" in text
    assert "<" not in files["mine.md"]
    shown = r"\x1b]52;c;ZXZpbA==\x07&lt;script>alert(1)&lt;/script>\u202e\x1f\x1e\r"
    assert files["mine.md"] == f"| attack {shown} | n |\n| --- | --- |\n| {shown} | 0.5 |\n"
    assert r"\textbackslash{}x1b]52" in files["mine.tex"]


def test_a_table_of_plain_letters_is_as_it_was() -> None:
    plain = "".join(chr(n) for n in range(32, 127) if chr(n) not in "<|") + "é–±→α中\tö"
    frame = pd.DataFrame({"a": [plain]})
    files = table_files({"mine": frame})
    assert files["mine.csv"] == frame.to_csv(index=False)
    assert files["mine.md"] == f"| a |\n| --- |\n| {plain} |\n"
