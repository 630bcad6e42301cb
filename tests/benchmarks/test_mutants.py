"""Seeded faults: what is changed and what is left alone, and that the same seed draws the same ones."""

import ast
from itertools import islice

import pytest

from benchmarks.mutants import VERDICTS, Fault, drawn, functions_of, listed, plan, shares, table
from benchmarks.mutations import mutations_of
from benchmarks.rooms import ROOMS, code, files_of_tests, room_of
from benchmarks.tests_of_lines import Learned


def changed(source: str) -> set[str]:
    return {ast.unparse(ast.parse(m.applied(source))) for m in mutations_of(source)}


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a == b", {"a != b"}),
        ("c = a - b", {"c = a + b"}),
        ("x and y", {"x or y"}),
        ("c = not x", {"c = x"}),
        ("c = -x", {"c = x"}),
        ("c = 3", {"c = 4", "c = 2"}),
        ("c = 0", {"c = 1"}),
        ("c = 0.5", {"c = 1.0"}),
        ("c = True", {"c = False"}),
        ("c = a if b else d", {"c = d if b else a"}),
        ("c = x.mean(axis)", {"c = x.sum(axis)"}),
        ("c = min(a, b)", {"c = max(a, b)"}),
        ("c = f(a, b)", {"c = f(b, a)"}),
        ("c = where(a, b, d)", {"c = where(a, d, b)"}),
        ("f(a)", {"pass"}),
        ("a.b = c", {"pass"}),
        ("a += b", {"pass"}),
        ("if a:\n    b = c", {"if not a:\n    b = c"}),
        ("def f(a):\n    return a", {"def f(a):\n    return None"}),
        ("c = x - (a + b) * d", {"c = x + (a + b) * d", "c = x - (a - b) * d", "c = x - (a + b) / d"}),
        ("c = 'ü' + a", {"c = 'ü' - a"}),
    ],
)
def test_faults_of_a_line(source: str, faults: set[str]) -> None:
    assert changed(source) == faults


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 3 words."""',
        "import a",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "x: Literal[1]",
        "@d(1)\nclass A(B): ...",
        "raise ValueError(1 + a)",
        "c = f'{a + 1}'",
        "c = f(description=1 + a)",
        "c = zip(strict=True)",
        "c = 1e-12",
        "if TYPE_CHECKING:\n    from a import b",
    ],
)
def test_what_is_only_read_is_left_alone(source: str) -> None:
    assert mutations_of(source) == []


def test_every_drawn_fault_is_a_changed_file_and_a_seed_draws_the_same_ones_again() -> None:
    texts = code()
    first = list(islice(drawn(0, ()), 100))
    assert first == list(islice(drawn(0, ()), 100))
    assert first != list(islice(drawn(1, ()), 100))
    for fault in first:
        assert ast.dump(ast.parse(fault.text)) != ast.dump(ast.parse(texts[fault.path]))
    counts = [sum(f.path == path for f in first) for path in texts]
    assert max(counts) <= 3  # no file gives many more than another
    assert {f.path for f in islice(drawn(0, ["marvell"]), 50)} == {p for p in texts if "marvell" in p}


def test_listed_faults_can_still_be_made_and_those_that_change_nothing_are_not_drawn() -> None:
    assert len(listed("named")) == 8
    texts = code()
    for fault in listed("same"):
        assert fault.text in {mutation.applied(texts[fault.path]) for mutation in mutations_of(texts[fault.path])}
        assert fault.text not in {other.text for other in drawn(0, [fault.path])}


def test_the_tests_of_a_line_come_first_then_those_beside_them_and_narrow_quick_ones_before_others() -> None:
    path = "tune_vfl/evaluation/grants/auxiliary.py"
    inside = sorted(functions_of(code()[path]))
    here, there = str(inside[0]), str(inside[-1])
    known = {
        "wide.py": Learned({"a": 5.0, "b": 0.1, "never": 99.0}, {path: {here: ["a", "b", "never"], there: ["b"]}}),
        "narrow.py": Learned({"d": 0.1, "e": 0.2}, {path: {here: ["d"]}}),
        "other.py": Learned({"f": 0.1}, {path: {there: ["f"]}, "another.py": {here: ["f"]}}),
    }
    steps = [("narrow.py", ["d", "e"]), ("wide.py", ["b", "a"])]
    assert plan(Fault(path, "", range(inside[0], inside[0] + 1), False), known) == steps
    whole = plan(Fault(path, "", range(1), True), known)
    assert whole == [("narrow.py", ["d", "e"]), ("other.py", ["f"]), ("wide.py", ["b", "a"])]


def test_a_table_counts_by_file_and_shares_by_room() -> None:
    faults = [(Fault("a.py", "", range(1), False), verdict) for verdict in (*VERDICTS, "killed")]
    assert table(faults).splitlines()[-1] == "| a.py | 4 | 2 | 1 | 1 |"
    ledger, report = "tune_vfl/ledger/trials.py", "reports/story.py"
    judged = [
        (Fault(p, "", range(1), False), v) for p, v in ((ledger, "killed"), (report, "survived"), (report, "timed out"))
    ]
    assert shares(judged).splitlines()[2:] == ["| ledger | 1 of 1 | 100.0% |", "| reports | 1 of 2 | 50.0% |"]


def test_a_room_has_files_and_tests_and_only_its_own_faults_are_drawn() -> None:
    for room in ROOMS:
        assert code([room]), room
        assert files_of_tests([room]), room
        assert {fault.path for fault in islice(drawn(0, (), [room]), 40)} <= set(code([room]))
    assert room_of("tune_vfl/analysis/sentences.py") == "analysis"
    assert set(code(["ledger", "driver"])) == {*code(["ledger"]), *code(["driver"])}
    assert set(files_of_tests(["analysis"])) < set(files_of_tests(["analysis", "ledger"]))
