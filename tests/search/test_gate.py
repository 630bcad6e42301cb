"""The gate at which workers wait for each other."""

from trainables import gate


def test_who_was_there_before_is_not_waited_for_again(monkeypatch):
    came = []
    monkeypatch.setattr(gate, "_PASSED", set())
    monkeypatch.setattr(gate, "_wait", lambda key, count: came.append((key, count)))
    gate.wait_at_gate(None)
    for count in (0, 0, 2, 2, 0):
        gate.wait_at_gate({"key": "one", "count": count})
    assert came == [("one", 0), ("one", 2)], "a process comes once, and waits once"
