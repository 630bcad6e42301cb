"""The server, with the labels and no columns: a top model over all parties' embeddings, and gradients to all of them.

    PYTHONPATH=examples/flower flwr run examples/flower_vertical --stream \
        --federation-config "num-supernodes=3" --run-config "folder='$PWD/examples/loans'"

This has the form of Flower's public vertical example before it spoke in messages (its NumPyClient and Strategy), on
other data: parties embed all rows in each round, and each of them receives the gradients of all.
"""

from __future__ import annotations

from typing import Any

import torch
from flwr.app import Context
from flwr.common import FitRes, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp
from task import COLUMNS, WIDTH, labels
from torch import Tensor, nn


class Joining(FedAvg):
    """Joins embeddings in the place of averaging models, and gives the gradients of all back to all."""

    def __init__(self, y: Tensor, rate: float) -> None:
        parties = len(COLUMNS)
        start = ndarrays_to_parameters([])
        super().__init__(min_available_clients=parties, min_fit_clients=parties, initial_parameters=start)
        torch.manual_seed(0)
        self.y, self.top = y, nn.Sequential(nn.Linear(WIDTH * parties, 1), nn.Sigmoid())
        self.optimizer = torch.optim.SGD(self.top.parameters(), lr=rate)

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: list[Any]
    ) -> tuple[Parameters | None, dict[str, Any]]:
        """Take a step of the top model, and return the gradients of the embeddings, one array a party."""
        arrived = {int(one.metrics["party"]): parameters_to_ndarrays(one.parameters)[0] for _, one in results}
        joined = torch.cat([torch.tensor(arrived[party]) for party in sorted(arrived)], 1).requires_grad_()
        scores = self.top(joined)
        self.optimizer.zero_grad()
        nn.functional.binary_cross_entropy(scores, self.y).backward()
        self.optimizer.step()
        assert joined.grad is not None
        share = float(((scores > 0.5) == (self.y > 0.5)).float().mean())
        return ndarrays_to_parameters([part.numpy() for part in joined.grad.split(WIDTH, 1)]), {"accuracy": share}

    def aggregate_evaluate(self, server_round: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
        """Measure nothing: parties answer with no more than that they took their step."""
        return None, {}


def server(context: Context) -> ServerAppComponents:
    """Return the strategy and the number of rounds."""
    given = context.run_config
    strategy = Joining(labels(str(given["folder"])), float(given["learning-rate"]))
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=int(given["rounds"])))


app = ServerApp(server_fn=server)
