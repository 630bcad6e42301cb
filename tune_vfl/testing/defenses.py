"""The contract of every defense: inherit :class:`DefenseContract` in a test module and name the defenses to test.

Tests that a defense's declared capabilities rule out are not made for it; nothing is skipped by name::

    class TestMine(DefenseContract):
        names = ("my_defense",)  # None: all registered ones
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.defenses.base import DEFENSES, Defense
from tune_vfl.errors import SpecError, UsageError
from tune_vfl.models.layers import stack_of
from tune_vfl.protocol.members import Batch
from tune_vfl.seeds import Stream
from tune_vfl.spec import Strict
from tune_vfl.testing.fitting import allows, fitting, other
from tune_vfl.testing.gradients import CASES, Case, MadeUpRows, context_of, make_rows

TOLERANCE = 1e-6
"""Largest difference between a member of a pack and the same trial alone, per call."""

_UNDECLARED = 'the sent gradients are drawn anew: declare DefenseCapabilities(random=("gradients",))'


def build(
    defense: type[Defense], params: Strict | Sequence[Strict], case: Case, rows: MadeUpRows, seed: int | list[int]
) -> Defense:
    """Return the defense, set up on the rows."""
    mode = case.mode_for(defense.capabilities.modes)
    made = defense(params, num_classes=case.num_classes, embedding_dims=[case.d, case.d], mode=mode)
    made.extend([rows.grad, rows.grad, rows.features], seed=seed, part="train")  # any rows do for the parties
    made.setup(rows.y, rows.ids, active_features=rows.features, seed=seed)
    return made


def rows_for(defense: type[Defense], case: Case, seed: int = 0) -> MadeUpRows:
    """Return rows whose logits are as many as the defense needs."""
    return make_rows(case, [seed], head=defense.capabilities.head)[0]


def cut(made: Defense, grad: Tensor, y: Tensor, *, party: int = 0) -> Tensor:
    """Return the tensors that leave the label party; the loop offers a context only to a defense that needs one."""
    outputs = 1 if made.capabilities.head == "scalar" else made.num_classes
    context = context_of(grad, y, outputs) if made.capabilities.needs_context else None
    return made.cut_gradient(grad, y=y, context=context, party=party)


def run(made: Defense, rows: MadeUpRows) -> dict[str, Tensor]:
    """Call every tensor hook as a few steps of training would, an epoch each, the last of them with fewer rows."""
    seen: dict[str, Tensor] = {}
    for step, (start, stop) in enumerate(((0, 24), (24, 48), (48, 61))):
        y, ids, grad, logits = (t.narrow(rows.y.dim() - 1, start, stop - start) for t in rows.by_row)
        own = rows.features.narrow(rows.y.dim() - 1, start, stop - start)
        batch = made.inputs(Batch(passive=[own, own], own=own, y=y, ids=ids), rows, epoch=step)
        seen |= {f"inputs {step} {party}": x for party, x in enumerate(batch.features)}
        targets = made.labels(y, ids)
        seen[f"labels {step}"] = targets
        seen[f"loss {step}"] = made.loss(logits, targets, [grad, grad])
        for party in (0, 1):
            seen[f"sent {step} {party}"] = made.send_embedding(grad, party=party)
            seen[f"gradient {step} {party}"] = cut(made, grad, y, party=party)
        seen[f"decoded {step}"] = made.decode(logits)
    return seen


def _gradients(seen: dict[str, Tensor]) -> list[Tensor]:
    return [value for name, value in seen.items() if name.startswith("gradient")]


def _labels(seen: dict[str, Tensor]) -> list[Tensor]:
    return [value for name, value in seen.items() if name.startswith("labels")]


class DefenseContract:
    """The contract of every defense.

    Attributes:
        names: the registered names to hold to the contract; None for all of them.
    """

    names: ClassVar[Sequence[str] | None] = None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for every defense, and for every case that its capabilities allow."""
        defenses = [DEFENSES[name] for name in self.names or DEFENSES.names()]
        if "case" in metafunc.fixturenames:
            pairs = [(d, c) for d in defenses for c in CASES if allows(d, c)]
            metafunc.parametrize("defense, case", pairs, ids=[f"{d.name}-{c.name}" for d, c in pairs])
        elif "defense" in metafunc.fixturenames:
            metafunc.parametrize("defense", defenses, ids=[d.name for d in defenses])

    def test_says_what_it_is(self, defense: type[Defense]) -> None:
        """A summary, a reference, attacks that there are, and a description for each parameter."""
        assert defense.summary
        assert defense.reference
        assert [name for name in defense.paper_attacks if name not in ATTACKS] == []
        assert all(field.description for field in defense.Params.model_fields.values())

    def test_defaults_lie_inside_their_ranges_and_survive_a_round_trip(self, defense: type[Defense]) -> None:
        """Parameters survive a round trip through a config."""
        params = defense.Params()
        assert defense.Params.model_validate(params.model_dump(mode="json")) == params
        assert defense.Params.model_validate_json(params.model_dump_json()) == params

    def test_unknown_parameters_are_refused(self, defense: type[Defense]) -> None:
        """A misspelt parameter is an error, not a default."""
        with pytest.raises(ValidationError):
            defense.Params.model_validate({"no_such_parameter": 1})

    def test_structure_tells_who_may_share_a_pack(self, defense: type[Defense]) -> None:
        """Equal parameters have equal, hashable structures."""
        assert hash(defense.structure(defense.Params())) == hash(defense.structure(defense.Params()))

    def test_binary_defenses_refuse_more_classes(self, defense: type[Defense]) -> None:
        """A defense for two classes cannot be built for three; any other can."""
        if defense.capabilities.classes == "binary":
            with pytest.raises(SpecError):
                defense(defense.Params(), num_classes=3, embedding_dims=[4])
        else:
            assert defense(defense.Params(), num_classes=3, embedding_dims=[4]).num_classes == 3

    def test_sends_finite_gradients_of_the_same_shape(self, defense: type[Defense], case: Case) -> None:
        """Shape and dtype stay, no number is lost, and the gradient that came in is left alone."""
        rows = rows_for(defense, case)
        before = rows.grad.clone()
        made = build(defense, fitting(defense, case), case, rows, 0)
        for name, sent in run(made, rows).items():
            assert torch.isfinite(sent).all(), name
        assert torch.equal(rows.grad, before)
        for dtype in (torch.float32, torch.float64):
            sent = cut(made, rows.grad.to(dtype), rows.y)
            assert (sent.shape, sent.dtype) == (rows.grad.shape, dtype)

    def test_odd_batches_stay_finite(self, defense: type[Defense], case: Case) -> None:
        """Zero gradients, zero rows, one row, one class, huge and tiny rows: none of them makes a NaN."""
        rows = rows_for(defense, case)
        for name, change in _ODD_BATCHES.items():
            made = build(defense, fitting(defense, case), case, rows, 0)
            grad, y = change(rows)
            for _ in range(2):
                assert torch.isfinite(cut(made, grad, y)).all(), name

    def test_a_pack_is_its_members(self, defense: type[Defense], case: Case) -> None:
        """Members with other parameters, data and seeds each get the same result as alone."""
        if not defense.capabilities.stackable:
            pytest.skip("declared as not stackable")
        params = [fitting(defense, case)] * 2 + [other(defense, case)] * 2
        seeds = [0, 1, 0, 1]
        alone = [rows_for(defense, case, seed) for seed in seeds]
        together = run(build(defense, params, case, MadeUpRows.stack(alone), seeds), MadeUpRows.stack(alone))
        for member, (own, rows, seed) in enumerate(zip(params, alone, seeds, strict=True)):
            for name, value in run(build(defense, own, case, rows, seed), rows).items():
                torch.testing.assert_close(together[name][member], value, rtol=0, atol=TOLERANCE, msg=name)

    def test_seeds_decide_what_is_random_and_nothing_else(self, defense: type[Defense], case: Case) -> None:
        """The same seed gives the same numbers; another one gives others exactly where the capabilities say so."""
        rows = rows_for(defense, case)
        params = fitting(defense, case)
        first, again, new = (run(build(defense, params, case, rows, seed), rows) for seed in (0, 0, 1))
        alike = all(torch.equal(first[name], again[name]) for name in first)
        assert alike, "one seed gave two results: every draw must come from self.streams"
        for what, part in {"gradients": _gradients, "labels": _labels}.items():
            same = all(torch.equal(a, b) for a, b in zip(part(first), part(new), strict=True))
            if what in defense.capabilities.random:
                assert not same, f"random names {what!r}, and another seed draws the same: draw from self.streams"
            elif what == "gradients":
                assert same, _UNDECLARED

    def test_parties_and_steps_draw_their_own_noise(self, defense: type[Defense], case: Case) -> None:
        """Two parties with equal gradients, and two steps of one party, never get the same noise."""
        rows = rows_for(defense, case)
        made = build(defense, fitting(defense, case), case, rows, 0)
        sent = [cut(made, rows.grad, rows.y, party=party) for party in (0, 1, 0)]
        if "gradients" in defense.capabilities.random:
            assert not torch.equal(sent[0], sent[1]), "two parties got the same noise: name a stream for each party"
            assert not torch.equal(sent[0], sent[2]), "two steps got the same noise: keep the stream between calls"
        else:
            assert torch.equal(sent[0], sent[1]), _UNDECLARED

    def test_a_defense_that_needs_a_context_says_so(self, defense: type[Defense]) -> None:
        """In a loop that offers none it is refused with the reason; any other goes on without."""
        case = CASES[0]
        rows = rows_for(defense, case)
        made = build(defense, fitting(defense, case), case, rows, 0)
        if defense.capabilities.needs_context:
            with pytest.raises(UsageError, match="context"):
                made.cut_gradient(rows.grad, y=rows.y)
        else:
            assert made.cut_gradient(rows.grad, y=rows.y).shape == rows.grad.shape

    def test_a_disguised_bottom_is_a_copy(self, defense: type[Defense], case: Case) -> None:
        """A disguised bottom model takes the same rows as the original, and is an independent copy."""
        rows = rows_for(defense, case)
        made = build(defense, fitting(defense, case), case, rows, 0)
        bottom = made.wrap_bottom(nn.Sequential(*stack_of([case.d, 5, case.d], nn.ReLU, stream=Stream(0, "bottom"))))
        before = bottom(rows.grad)
        known = made.disguised(bottom, stream=Stream(1, "guess"))
        assert known(rows.grad).shape == before.shape
        assert torch.equal(known(rows.grad), made.disguised(bottom, stream=Stream(1, "guess"))(rows.grad))
        with torch.no_grad():
            for tensor in [*known.parameters(), *known.buffers()]:
                tensor.zero_()
        assert torch.equal(bottom(rows.grad), before)

    def test_an_open_bottom_answers_as_the_guess_that_it_starts_from(self, defense: type[Defense], case: Case) -> None:
        """With its secrets free, a bottom model starts as the disguised one; only secrets want a gradient."""
        rows = rows_for(defense, case)
        made = build(defense, fitting(defense, case), case, rows, 0)
        bottom = made.wrap_bottom(nn.Sequential(*stack_of([case.d, 5, case.d], nn.ReLU, stream=Stream(0, "bottom"))))
        before = bottom(rows.grad)
        frozen = copy.deepcopy(bottom).requires_grad_(False)
        known = made.open_bottom(frozen, stream=Stream(1, "guess"))
        guess = made.disguised(bottom, stream=Stream(1, "guess"))
        torch.testing.assert_close(known(rows.grad), guess(rows.grad), rtol=1e-5, atol=1e-6)
        secret = any(p.requires_grad for p in known.parameters())
        assert secret == (not torch.equal(guess(rows.grad), before))
        with torch.no_grad():
            for tensor in [*known.parameters(), *known.buffers()]:
                tensor.zero_()
        assert torch.equal(frozen(rows.grad), before)

    def test_what_is_trained_on_are_rows(self, defense: type[Defense], case: Case) -> None:
        """Whatever stands in for the parties' rows has their shape, and the rows themselves are left alone."""
        rows = rows_for(defense, case)
        made, before = build(defense, fitting(defense, case), case, rows, 0), rows.features.clone()
        batch = Batch(passive=[rows.features] * 2, own=rows.features, y=rows.y, ids=rows.ids)
        given = made.inputs(batch, rows, epoch=0)
        assert [x.shape for x in given.features] == [before.shape] * 3
        assert torch.equal(given.y, rows.y)
        assert torch.equal(given.ids, rows.ids)
        assert torch.equal(rows.features, before)

    def test_labels_belong_to_rows(self, defense: type[Defense], case: Case) -> None:
        """A row's label is the same in any batch and any order, and finite.

        Soft labels are a distribution over the classes; the numbers that a scalar head is trained on mean what its
        defense says.
        """
        rows = rows_for(defense, case)
        made = build(defense, fitting(defense, case), case, rows, 0)
        labels = made.labels(rows.y, rows.ids)
        order = torch.randperm(len(rows.y), generator=torch.Generator().manual_seed(0))[:20]
        assert torch.equal(made.labels(rows.y[order], rows.ids[order]), labels[order])
        assert torch.isfinite(labels).all()
        if defense.capabilities.head == "scalar":
            assert labels.shape == rows.y.shape
        elif labels.dim() > rows.y.dim():
            assert labels.shape == (*rows.y.shape, case.num_classes)
            assert (labels >= 0).all()
            torch.testing.assert_close(labels.sum(-1), torch.ones(len(rows.y)))
        else:
            assert ((labels >= 0) & (labels < case.num_classes)).all()

    def test_the_weakest_setting_is_no_defense(self, defense: type[Defense], case: Case) -> None:
        """Where a setting is declared to do nothing, it does nothing."""
        if defense.weakest is None:
            pytest.skip("declares no setting that does nothing")
        rows = rows_for(defense, case)
        params = defense.Params.model_validate({**fitting(defense, case).model_dump(), **defense.weakest})
        made = build(defense, params, case, rows, 0)
        labels = made.labels(rows.y, rows.ids)
        hard = labels if labels.dim() == rows.y.dim() else labels.argmax(-1)
        batch = Batch(passive=[rows.features] * 2, own=rows.features, y=rows.y, ids=rows.ids)
        assert all(torch.equal(x, rows.features) for x in made.inputs(batch, rows, epoch=1).features)
        assert torch.equal(cut(made, rows.grad, rows.y), rows.grad)
        assert torch.equal(hard, rows.y)
        if labels.dim() > rows.y.dim():
            torch.testing.assert_close(labels.amax(-1), torch.ones(len(rows.y)), rtol=0, atol=0)


def _with_rows(count: int, value: float) -> Callable[[MadeUpRows], tuple[Tensor, Tensor]]:
    def change(rows: MadeUpRows) -> tuple[Tensor, Tensor]:
        return torch.cat([rows.grad[count:], torch.full_like(rows.grad[:count], value)]), rows.y

    return change


_ODD_BATCHES: dict[str, Callable[[MadeUpRows], tuple[Tensor, Tensor]]] = {
    "zero gradient": lambda rows: (torch.zeros_like(rows.grad), rows.y),
    "zero rows": _with_rows(30, 0.0),
    "equal rows": lambda rows: (torch.full_like(rows.grad, 0.01), rows.y),
    "one row": lambda rows: (rows.grad[:1], rows.y[:1]),
    "one class": lambda rows: (rows.grad, torch.ones_like(rows.y)),
    "other class": lambda rows: (rows.grad, torch.zeros_like(rows.y)),
    "huge rows": _with_rows(2, 1e9),
    "tiny rows": _with_rows(30, 1e-25),
    "tiny gradient": lambda rows: (rows.grad * 1e-25, rows.y),
}
