"""A site without labels as a Flower ClientApp: each message calls one method of its half of the training."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from passive_site import PassiveSite

METHODS = ("begin", "embed", "learn", "embed_test", "weights")

app = ClientApp()


@app.train()
def answer(message: Message, context: Context) -> Message:
    """Call the method that a message names; a ClientApp forgets all between messages but what its context holds."""
    call, tensors = message.content["call"], message.content["tensors"].to_torch_state_dict().values()
    if (method := str(call["method"])) not in METHODS:
        raise ValueError(f"expected one of {', '.join(METHODS)}, got {method!r}")
    if method != "begin" and "site" not in context.state:
        raise RuntimeError("this site was started anew in the midst of a training, which must begin again")
    if "site" in context.state:
        site = pickle.loads(context.state["site"]["pickled"])  # noqa: S301 - this site's own
    else:
        number = int(context.node_config["partition-id"]) + 1  # of this site: in the simulator it has nothing else
        site = PassiveSite(str(Path(str(context.run_config["folder"])) / f"site-{number}"))
    if method == "learn":
        site.embed(site.ids)  # the graph of these rows is gone
    found = getattr(site, method)(*tensors, *call["numbers"])
    context.state["site"] = ConfigRecord({"pickled": pickle.dumps(site)})
    sent = found if isinstance(found, dict) else {} if found is None else {"found": torch.as_tensor(found)}
    return Message(RecordDict({"tensors": ArrayRecord(sent)}), reply_to=message)
