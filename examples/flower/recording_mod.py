"""A Flower mod that records what a site without labels sends and receives: ``ClientApp(mods=[recorder])``.

Each step is a file, since a ClientApp forgets between messages; ``python recording_mod.py FOLDER recording.npz`` joins
them for ``tune-vfl attack``. Where your messages have other names than this example's, change the lines that read them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable

FOLDER = Path("recorded")


def recorder(message: Message, context: Context, app: ClientAppCallable) -> Message:
    """Pass a message on, and keep the ids and embeddings of a step with the gradient that comes back for them."""
    method, tensors = message.content["call"]["method"], message.content["tensors"].to_torch_state_dict()
    reply = app(message, context)
    FOLDER.mkdir(exist_ok=True)
    step = len(list(FOLDER.glob("*.learn.npy")))
    if method == "begin":  # another training
        for path in FOLDER.glob("*.npy"):
            path.unlink()
    elif method == "embed":
        np.save(FOLDER / f"{step:08}.ids.npy", tensors["0"].numpy())
        np.save(FOLDER / f"{step:08}.embeddings.npy", reply.content["tensors"].to_torch_state_dict()["found"].numpy())
    elif method == "learn":
        np.save(FOLDER / f"{step:08}.learn.npy", tensors["0"].numpy())
    return reply


def join(folder: Path, target: Path) -> None:
    """Write the recording of all steps; add ``columns=`` of your own if you have them at hand."""
    ids, embeddings, gradients = (
        [np.load(path) for path in sorted(folder.glob(f"*.{name}.npy"))] for name in ("ids", "embeddings", "learn")
    )
    steps = np.concatenate([np.full(len(rows), step) for step, rows in enumerate(ids)])
    sent, received = np.concatenate(embeddings), np.concatenate(gradients)
    np.savez(target, ids=np.concatenate(ids), steps=steps, embeddings=sent, gradients=received)


if __name__ == "__main__":
    join(Path(sys.argv[1]), Path(sys.argv[2]))
