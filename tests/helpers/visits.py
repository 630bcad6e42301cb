"""Worlds of made-up visits: rows whose gradients show classes in noise at every step, and the success of an answer."""

from dataclasses import replace

import torch
from torch import nn

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.metrics.leakage import leak_auc, top1
from tune_vfl.protocol.granted import Auxiliary, Features
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.protocol.view import View
from tune_vfl.protocol.visits import Visits
from tune_vfl.seeds import Streams

FILTER = ATTACKS["matched_filter"]
SEEN = ("sent", "received", "places")
ROWS, EPOCHS, WIDTH, AUX, BATCH = 1200, 12, 6, 10, 100


def visits_of(received, sent, *, seed=0, batch=BATCH, mechanism=None):
    """Return the visits ``(E, N, d)`` of a training whose rows come in another order each epoch."""
    g = torch.Generator().manual_seed(seed)
    places = torch.stack([torch.randperm(received.shape[1], generator=g) for _ in received])
    return Visits(sent, received, places, tuple(map(float, range(len(received)))), batch, mechanism=mechanism)


def moving(g, *shape):
    """Return numbers ``(E, *shape)`` that move in a line from one draw to another over the training."""
    first, last = torch.randn(2, *shape, generator=g)
    return first + (last - first) * torch.linspace(0, 1, EPOCHS).view(-1, *[1] * len(shape))


def world(seed=0, *, classes=2, jump=1.0, noise=1.0, spread=(1.0, 1.0), features=0.5, tell=True, aux=AUX):
    """Rows whose gradients hold a class's slowly moving template, in noise drawn anew; features that say a little."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (ROWS,), generator=g)
    shown = y if tell else y[torch.randperm(ROWS, generator=g)]
    x = features * nn.functional.one_hot(shown, classes).float() + torch.randn(ROWS, classes, generator=g)
    sent = x @ torch.randn(classes, WIDTH, generator=g) + 0.3 * torch.randn(EPOCHS, ROWS, WIDTH, generator=g)
    slope, jumps = moving(g, WIDTH, WIDTH), jump * moving(g, classes, WIDTH)
    scale = torch.tensor(spread)[shown % 2][:, None]
    drawn = noise * scale * torch.randn(EPOCHS, ROWS, WIDTH, generator=g)
    received = sent @ slope * 0.3 + jumps[:, shown] + drawn
    ids = torch.cat([(y == k).nonzero().flatten()[:aux] for k in range(classes)])
    shares = nn.functional.one_hot(y, classes).float().mean(0)
    held = {
        "visits": visits_of(received, sent, seed=seed),
        "features": Features(x, x[:1]),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(ids, y[ids]),
        "class_prior": shares,
    }
    return y, View("matched_filter", (), classes, Streams(seed), held)


def swapped(seed, keep, **options):
    """Return the true labels and the view of a world whose gradients show labels that were swapped, kept by chance."""
    shown, view = world(seed, features=0.0, **options)
    g = torch.Generator().manual_seed(100 + seed)
    y = torch.where(torch.rand(len(shown), generator=g) < keep, shown, 1 - shown)
    x = 2.0 * nn.functional.one_hot(y, 2).float() + view.features.train
    ids = torch.cat([(y == k).nonzero().flatten()[:AUX] for k in range(2)])
    swaps = torch.tensor([[keep, 1 - keep], [1 - keep, keep]])
    return y, view.holding(
        visits=replace(view.granted("visits"), mechanism=Mechanism(swaps=swaps)),
        features=replace(view.features, train=x),
        auxiliary=replace(view.auxiliary, ids=ids, labels=y[ids]),
        class_prior=nn.functional.one_hot(y, 2).float().mean(0),
    )


def packed(views):
    """Return the view of a pack whose members are these."""

    def stacked(name, *fields):
        return [torch.stack([getattr(v.granted(name), field) for v in views]) for field in fields]

    visits = [v.granted("visits") for v in views]
    mechanism = visits[0].mechanism
    if mechanism is not None:
        mechanism = Mechanism(swaps=torch.stack([v.mechanism.swaps for v in visits]))
    held = {
        "visits": replace(visits[0], **dict(zip(SEEN, stacked("visits", *SEEN), strict=True)), mechanism=mechanism),
        "features": Features(*stacked("features", "train", "test")),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(*stacked("auxiliary", "ids", "labels")),
        "class_prior": torch.stack([v.class_prior for v in views]),
    }
    count = len(views)
    return View("matched_filter", (count,), views[0].num_classes, Streams(list(range(count))), held)


def success(answer, y):
    keep = answer.counted
    scores, labels = answer.scores[keep].numpy(), y[answer.ids][keep].numpy()
    return leak_auc(scores, labels, flip=False) if answer.scores.shape[-1] == 2 else top1(scores, labels)
