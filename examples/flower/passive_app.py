"""A site without labels as a Flower ClientApp: each message calls one method of its half of the training."""

from __future__ import annotations

import pickle
from pathlib import Path

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
    if "site" in context.state:
        site = pickle.loads(context.state["site"]["pickled"])  # noqa: S301 - this site's own
    else:
        site = PassiveSite(str(Path(str(context.run_config["folder"])) / f"site-{place(context) + 1}"))
    if method == "learn":
        site.embed(site.ids)  # the graph of these rows is gone
    found = getattr(site, method)(*tensors, *call["numbers"])
    context.state["site"] = ConfigRecord({"pickled": pickle.dumps(site)})
    tensors = ArrayRecord(found if isinstance(found, dict) else {} if found is None else {"found": found})
    return Message(RecordDict({"tensors": tensors, "place": ConfigRecord({"n": place(context)})}), reply_to=message)


def place(context: Context) -> int:
    """Return the number of this site among the passive ones: in the simulator that of its partition."""
    return int(context.node_config["partition-id"])
