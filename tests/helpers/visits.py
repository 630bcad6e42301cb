"""Worlds of made-up visits: rows whose gradients show classes in noise at every epoch, and the success of an answer."""

import torch
from torch import nn

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.evaluation.grants.visits import SPANS
from tune_vfl.metrics.leakage import leak_auc, top1
from tune_vfl.protocol.granted import Auxiliary, Features
from tune_vfl.protocol.view import View
from tune_vfl.protocol.visits import Visits
from tune_vfl.seeds import Streams

EM = ATTACKS["gradient_em"]
ROWS, EPOCHS, WIDTH, AUX = 1200, 12, 6, 10


def visits_of(received, sent):
    lengths = received.norm(dim=-1, keepdim=True)
    parts = [list(range(s * EPOCHS // SPANS, (s + 1) * EPOCHS // SPANS)) for s in range(SPANS)]

    def means(x):
        return torch.stack([x[p].mean(0) for p in parts])

    return Visits(sent, received, means(sent), means(received), means(received / lengths))


def world(seed=0, *, classes=2, jump=1.0, noise=1.0, spread=(1.0, 1.0), features=0.5, tell=True, aux=AUX):
    """Rows whose gradients jump by class at each epoch, in noise that is drawn anew; features that say a little."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (ROWS,), generator=g)
    shown = y if tell else y[torch.randperm(ROWS, generator=g)]
    x = features * nn.functional.one_hot(shown, classes).float() + torch.randn(ROWS, classes, generator=g)
    sent = x @ torch.randn(classes, WIDTH, generator=g) + 0.3 * torch.randn(EPOCHS, ROWS, WIDTH, generator=g)
    slope = torch.randn(EPOCHS, WIDTH, WIDTH, generator=g)
    jumps = jump * torch.randn(EPOCHS, classes, WIDTH, generator=g)
    scale = torch.tensor(spread)[shown % 2][:, None]
    drawn = noise * scale * torch.randn(EPOCHS, ROWS, WIDTH, generator=g)
    received = sent @ slope * 0.3 + jumps[:, shown] + drawn
    ids = torch.cat([(y == k).nonzero().flatten()[:aux] for k in range(classes)])
    shares = nn.functional.one_hot(y, classes).float().mean(0)
    held = {
        "visits": visits_of(received, sent),
        "features": Features(x, x[:1]),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(ids, y[ids]),
        "class_prior": shares,
    }
    return y, View("gradient_em", (), classes, Streams(seed), held)


def success(answer, y):
    keep = answer.counted
    scores, labels = answer.scores[keep].numpy(), y[answer.ids][keep].numpy()
    return leak_auc(scores, labels, flip=False) if answer.scores.shape[-1] == 2 else top1(scores, labels)
