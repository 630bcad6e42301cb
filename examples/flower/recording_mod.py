"""A Flower mod that records what a site without labels sends and receives: ``ClientApp(mods=[recording(defended)])``.

``defended`` reads the messages of this example; for other messages write such a function, as examples/flower_vertical
has one. Each step is a file in the folder ``recorded`` of the run's settings, since a ClientApp forgets between
messages; ``python recording_mod.py recorded/0 recording.npz`` joins those of a site for ``tune-vfl attack``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable, Mod

Read = Callable[[Message, Message], dict[str, np.ndarray] | None]
"""From a message and its reply: ``ids`` ``(B,)`` and ``embeddings`` that were sent, or ``gradients`` that came."""


def recording(read: Read) -> Mod:
    """Return a mod that passes messages on and keeps what ``read`` finds in them; None begins another training."""

    def recorder(message: Message, context: Context, app: ClientAppCallable) -> Message:
        reply = app(message, context)
        node = str(context.node_config.get("partition-id", context.node_id))
        mine = Path(str(context.run_config["recorded"])) / node
        mine.mkdir(parents=True, exist_ok=True)
        step, found = len(list(mine.glob("*.gradients.npy"))), read(message, reply)
        for path in mine.glob("*.npy") if found is None else ():
            path.unlink()
        for name, values in (found or {}).items():
            np.save(mine / f"{step:08}.{name}.npy", values)
        return reply

    return recorder


def defended(message: Message, reply: Message) -> dict[str, np.ndarray] | None:
    """Read the messages of passive_app.py."""
    method, tensors = message.content["call"]["method"], message.content["tensors"].to_torch_state_dict()
    if method == "begin":
        return None
    if method == "embed":
        return {"ids": tensors["0"].numpy(), "embeddings": reply.content["tensors"]["found"].numpy()}
    return {"gradients": tensors["0"].numpy()} if method == "learn" else {}


def join(folder: Path, target: Path) -> None:
    """Write the recording of all steps; add ``columns=`` of your own if you have them at hand."""
    ids, embeddings, gradients = (
        [np.load(path) for path in sorted(folder.glob(f"*.{name}.npy"))] for name in ("ids", "embeddings", "gradients")
    )
    if not gradients:
        raise SystemExit(f"{folder}: expected steps that a site recorded, found none")
    took = len(gradients)  # steps; what was embedded for none of them, at the end or for a test, stays out
    steps = np.concatenate([np.full(len(rows), step) for step, rows in enumerate(ids[:took])])
    sent, received = np.concatenate(embeddings[:took]), np.concatenate(gradients)
    np.savez(target, ids=np.concatenate(ids[:took]), steps=steps, embeddings=sent, gradients=received)


if __name__ == "__main__":
    join(Path(sys.argv[1]), Path(sys.argv[2]))
