"""Answers of two versions: what is compared, and that a last digit is seen."""

import json

from benchmarks.kept_answers import main, numbers


def test_times_are_left_out_and_every_number_is_named():
    answer = {"seconds": {"train": 1.5}, "utility": {"values": [0.1, 0.2], "cost": 3.0}, "outcome": "ok"}
    assert dict(numbers(answer)) == {"/outcome": "ok", "/utility/values/0": 0.1, "/utility/values/1": 0.2}


def test_a_last_digit_and_a_missing_answer_are_differences(tmp_path, capsys):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps({"/a": 0.1, "/b": 1, "/c": None}))
    after.write_text(json.dumps({"/a": 0.1 + 2**-56, "/b": 1}))
    assert main([str(before), str(before)]) == 0
    assert main([str(before), str(after)]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "/a: 0.1 -> 0.10000000000000002",
        "/c: None -> missing",
        "2 of 3 answers differ",
    ]
