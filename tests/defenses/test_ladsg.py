"""LADSG and the pipeline under it: stages in order, with streams, parameters and losses kept apart."""

import pytest
import torch
from torch.nn.functional import one_hot

from tune_vfl.defenses.base import Defense, DefenseCapabilities
from tune_vfl.defenses.cae import Cae
from tune_vfl.defenses.geno import Geno
from tune_vfl.defenses.grad_perturb import GradPerturb
from tune_vfl.defenses.ladistill import Ladistill
from tune_vfl.defenses.ladsg import Ladsg, LadsgParams
from tune_vfl.defenses.laplace import Laplace, LaplaceParams
from tune_vfl.defenses.marvell import Marvell
from tune_vfl.defenses.mid import Mid
from tune_vfl.defenses.parts.pipeline import Pipeline, combined
from tune_vfl.defenses.sgsub import Sgsub
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.losses import class_probabilities, task_loss
from tune_vfl.spec import Strict
from tune_vfl.testing.gradients import softmax_gradient

ROWS, CLASSES = 40, 4


def problem(seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(ROWS) % CLASSES
    x = torch.randn(CLASSES, 6, generator=g)[y] + 0.5 * torch.randn(ROWS, 6, generator=g)
    grad = softmax_gradient(torch.randn(ROWS, CLASSES, generator=g) * 0.05, one_hot(y, CLASSES).float())
    return x, y, torch.arange(ROWS), grad


def ready(defense, seed=0):
    x, y, ids, _ = problem()
    defense.setup(y, ids, active_features=x, seed=seed)
    return defense


def test_ladsg_is_its_three_parts_one_after_the_other():
    _, y, ids, grad = problem()
    params = LadsgParams(k=2, teacher_epochs=2, threshold=0.022)
    whole = ready(Ladsg(params, num_classes=CLASSES, embedding_dims=[CLASSES]))
    parts = []
    for stage in (Ladistill, Sgsub, Geno):
        part = stage(Pipeline.part_of(stage, params), num_classes=CLASSES, embedding_dims=[CLASSES])
        part.stream_prefix = f"{stage.name}/"
        parts.append(ready(part))
    assert torch.equal(whole.labels(y, ids), parts[0].labels(y, ids))
    for _ in range(3):
        sent = parts[2].cut_gradient(parts[1].cut_gradient(grad, y=y), y=y)
        assert torch.equal(whole.cut_gradient(grad, y=y), sent)
    assert set(whole.logged()) == {"teacher_accuracy", "accepted", "filtered"}
    assert 0 < whole.logged()["filtered"][0] < 1


def test_what_a_stage_asks_for_holds_for_the_whole():
    assert Ladsg.completed({"tau": 0.5}, num_classes=2) == {"tau": 0.5, "k": 2}
    assert "lower k" in Ladsg.problems(LadsgParams(k=5), num_classes=4, mode="split")[0]
    assert "teacher_view: full" in Ladsg.problems(LadsgParams(), num_classes=4, mode="label_only")[0]
    members = [LadsgParams(teacher_view="full", epsilon=0.8)] * 2
    ladsg = Ladsg(members, num_classes=CLASSES, embedding_dims=[CLASSES])
    assert ladsg.wants_full_view
    assert len(ladsg.notes()) == 2
    assert Ladsg.structure(LadsgParams()) != Ladsg.structure(LadsgParams(threshold=0.1))
    assert Ladsg.structure(LadsgParams(tau=0.5)) == Ladsg.structure(LadsgParams())


def test_capabilities_are_those_that_all_stages_leave():
    assert Ladsg.capabilities.protects == ("labels", "gradients")
    assert Ladsg.capabilities.random == ("gradients",)
    assert Ladsg.capabilities.scale_sensitive
    assert combined([Laplace, Marvell]).classes == "binary"


@pytest.mark.parametrize("demanding", [Cae, Mid, GradPerturb])
def test_a_need_of_any_stage_is_a_need_of_the_whole(demanding):
    own = demanding.capabilities
    for stages in ([demanding, Geno], [Geno, demanding]):
        whole = combined(stages)
        assert (whole.head, whole.needs_concat, whole.needs_context) == (
            own.head,
            own.needs_concat,
            own.needs_context,
        )
        assert whole.random == own.random
        assert whole.modes == own.modes & Geno.capabilities.modes
    assert (own.head, own.needs_concat, own.needs_context) != ("auto", False, False)


class Shifted(Defense):
    """A loss, a decoder and a screen of its own, to see them used."""

    capabilities = DefenseCapabilities()

    def loss(self, logits, targets, embeddings):
        return task_loss(logits, targets) + 1

    def decode(self, logits):
        return -logits

    def screen(self, gradients):
        return [2 * g for g in gradients]

    def send_embedding(self, embedding, *, party):
        return embedding + 1


Shifted.name = "shifted"


def test_a_pipeline_passes_on_every_hook_of_a_defense() -> None:
    """A hook added to the base and forgotten here would silently leave a stage out."""
    of_attackers = {"gradient_received", "local_optimizer", "partitions_told", "sums_told"}
    # How a stage reads its own parameters; what its own set-up calls.
    of_one_stage = {"shared", "number", "optional_number", "values", "begin"}
    hooks = {n for c in (Hooks, Defense) for n, member in vars(c).items() if callable(member) and n[0] != "_"}
    hooks |= {n for n, member in vars(Defense).items() if isinstance(member, (property, classmethod))}
    assert hooks - of_attackers - of_one_stage - set(vars(Pipeline)) == {"Params"}  # a class, not a hook


class Noisy(Pipeline):
    name, summary, reference = "noisy", "", ""
    stages = (Laplace, Shifted)
    Params = LaplaceParams
    capabilities = combined(stages)


class Plain(Pipeline):
    name, summary, reference = "plain", "", ""
    stages = (Laplace,)
    Params = LaplaceParams
    capabilities = combined(stages)


def test_the_last_loss_and_decoder_of_a_stage_count():
    _, y, _, grad = problem()
    noisy, plain = (ready(c(LaplaceParams(), num_classes=CLASSES, embedding_dims=[CLASSES])) for c in (Noisy, Plain))
    assert torch.equal(noisy.loss(grad, y, []), task_loss(grad, y) + 1)
    assert torch.equal(noisy.decode(grad), -grad)
    assert torch.equal(noisy.screen([grad])[0], 2 * grad)
    assert torch.equal(noisy.send_embedding(grad, party=0), grad + 1)
    assert torch.equal(plain.loss(grad, y, []), task_loss(grad, y))
    assert torch.equal(plain.decode(grad), class_probabilities(grad))
    assert torch.equal(noisy.cut_gradient(grad, y=y), plain.cut_gradient(grad, y=y))  # one more stage, the same noise


def test_stages_that_share_a_parameter_are_refused():
    with pytest.raises(TypeError, match="scale"):

        class Twice(Pipeline):
            stages = (Laplace, Laplace)
            Params = Strict
