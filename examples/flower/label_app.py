"""The site with the labels as a Flower ServerApp.

    PYTHONPATH=examples flwr run examples/flower --stream --federation-config "num-supernodes=1"

Its settings stand in pyproject.toml: the exported file, and for a rehearsal the folder in which each site's files are
prepared here, by one machine that may see all columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from label_site import prepare, report, train
from torch import Tensor

from tune_vfl import load_config
from tune_vfl.errors import UsageError

app = ServerApp()


class Remote:
    """A passive site behind Flower's messages: each of its methods is called there."""

    def __init__(self, grid: Grid, node: int) -> None:
        self.grid, self.node = grid, node

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return the method, as a call at that site."""
        return partial(self._call, method)

    def _call(self, method: str, *given: Tensor | float) -> Any:
        tensors = {str(n): value for n, value in enumerate(given) if isinstance(value, Tensor)}
        numbers = [value for value in given if not isinstance(value, Tensor)]
        call = RecordDict(
            {"call": ConfigRecord({"method": method, "numbers": numbers}), "tensors": ArrayRecord(tensors)}
        )
        (reply,) = self.grid.send_and_receive([Message(call, dst_node_id=self.node, message_type="train")])
        if reply.has_error():
            raise RuntimeError(f"site {self.node} failed in {method}: {reply.error.reason}")
        found = dict(reply.content["tensors"].to_torch_state_dict())
        return found.get("found", found)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Prepare the sites, train with all seeds of the exported setting, and print the search's numbers beside."""
    given = {name: str(value) for name, value in context.run_config.items()}
    cfg, csv, wire = load_config(given["config"]), given["csv"] or None, getattr(torch, given["wire"])
    sites: list[Any] = [Remote(grid, node) for node in grid.get_node_ids()]
    for folder in prepare(given["config"], Path(given["folder"]), csv, len(sites)):
        if (Path(folder) / "best.json").exists():
            raise UsageError(
                f"{given['config']}: {cfg.defense.name} runs at passive sites too, which forget its noise here"
            )
    report(cfg, [train(cfg, sites, seed, csv, wire=wire) for seed in cfg.seeds])
