"""A party without labels: it embeds all rows in each round, and learns from its own part of the gradients that come."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp
from recording_mod import recording
from task import WIDTH, columns


class Party(NumPyClient):
    """One party's half of the training; its model lies in its context between messages."""

    def __init__(self, context: Context) -> None:
        self.state, self.party = context.state, int(context.node_config["partition-id"])
        self.columns = columns(str(context.run_config["folder"]), self.party)
        torch.manual_seed(self.party)
        self.model = torch.nn.Linear(self.columns.shape[1], WIDTH)
        if "model" in self.state:
            self.model.load_state_dict(self.state["model"].to_torch_state_dict())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=float(context.run_config["learning-rate"]))

    def fit(self, parameters: list[np.ndarray], config: dict[str, Any]) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        """Return the embeddings of all rows."""
        return [self.model(self.columns).detach().numpy()], len(self.columns), {"party": self.party}

    def evaluate(self, parameters: list[np.ndarray], config: dict[str, Any]) -> tuple[float, int, dict[str, Any]]:
        """Take a step with this party's gradient, of the gradients of all parties."""
        self.model(self.columns).backward(torch.tensor(parameters[self.party]))
        self.optimizer.step()
        self.state["model"] = ArrayRecord(self.model.state_dict())
        return 0.0, len(self.columns), {}


def party(context: Context) -> Client:
    """Return this node's party."""
    return Party(context).to_client()


# The recorder: which of the messages of this app are its embeddings, and which the gradients that come back.
def rounds(message: Message, reply: Message) -> dict[str, np.ndarray] | None:
    """Read a round: the embeddings that a party sends, then the gradients of all parties, side by side."""
    if "fitres.parameters" in reply.content:
        (sent,) = reply.content["fitres.parameters"].to_numpy_ndarrays()
        return {"ids": np.arange(len(sent)), "embeddings": sent}
    if "evaluateins.parameters" in message.content:
        return {"gradients": np.concatenate(message.content["evaluateins.parameters"].to_numpy_ndarrays(), axis=1)}
    return {}


app = ClientApp(client_fn=party, mods=[recording(rounds)])
