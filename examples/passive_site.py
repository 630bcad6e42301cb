"""The site without labels: its columns, its model and its optimizer. It needs torch and nothing else.

Where a defense runs at this site too (``run_by: both`` in ``tune-vfl list defenses``) ``best.json`` lies in its folder,
and it needs tune-vfl.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class PassiveSite:
    """One site's half of a training: it embeds the rows that it is asked for, and learns from what comes back.

    Args:
        folder: of this site, as ``label_site.prepare`` fills it for a rehearsal. In use, :meth:`begin` reads columns
            of your own, in the order of rows that all sites share, and builds a model of your own.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def begin(self, seed: int) -> int:
        """Get columns, model and optimizer ready for a training with one seed; return the number of this party."""
        held = torch.load(self.folder / f"{seed}.pt", weights_only=True)
        self.train, self.test, self.party = held["train"], held["test"], held["party"]
        self.model: nn.Module = perceptron(held["weights"])
        self.defense: Any = None
        if (setting := self.folder / "best.json").exists():
            from tune_vfl import load_config

            cfg = load_config(setting)
            self.defense = cfg.build_defense(embedding_dims=[cfg.embedding_dim] * held["parties"])
            ids = torch.arange(len(self.train))
            self.defense.setup(torch.zeros_like(ids), ids, seed=seed)
            self.model = self.defense.wrap_bottom(self.model)
        self.optimizer = getattr(torch.optim, held["optimizer"])(self.model.parameters(), **held["options"])
        return int(self.party)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings ``(B, d)`` of training rows; their graph is kept for :meth:`learn`."""
        self.ids, self.sent = ids, self._sent(self.train[ids])
        return self.sent.detach()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the graph of the last rows, which cannot be kept between two processes."""
        return {name: value for name, value in self.__dict__.items() if name != "sent"}

    def learn(self, gradient: Tensor, lr: float) -> None:
        """Take a step with the gradient ``(B, d)`` of the rows that were embedded last."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        self.sent.backward(gradient)
        self.optimizer.step()

    def embed_test(self) -> Tensor:
        """Return the embeddings of all test rows ``(n, d)``."""
        self.model.eval()
        with torch.no_grad():
            return self._sent(self.test)

    def weights(self) -> dict[str, Tensor]:
        """Return the model's weights, which a rehearsal attacks; in use no other site asks for them."""
        return {name: value.detach() for name, value in self.model.state_dict().items()}

    def _sent(self, columns: Tensor) -> Tensor:
        embedding: Tensor = self.model(columns)
        return embedding if self.defense is None else self.defense.send_embedding(embedding, party=self.party)


def perceptron(weights: dict[str, Tensor]) -> nn.Sequential:
    """Return linear layers with ReLU between them and these starting weights: the study's ``mlp``."""
    layers: list[nn.Module] = [nn.Flatten()]
    for weight, _ in zip(*[iter(weights.values())] * 2, strict=True):  # each layer's weight, then its bias
        layers += [nn.Linear(weight.shape[1], weight.shape[0]), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    model.load_state_dict(weights)
    return model
