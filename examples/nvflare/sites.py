"""The two kinds of sites in NVFlare's Collab API, and the server that starts them."""

from __future__ import annotations

from pathlib import Path

from nvflare.collab import collab
from passive_site import PassiveSite

DAY = 86_400.0


class RelayingServer:
    """NVFlare's server: it relays messages, and has the label site train."""

    @collab.main
    def run(self) -> dict[str, float]:
        """Return utility and leakage as the label site measured them."""
        (label,) = collab.get_clients(["label"])
        found: dict[str, float] = label(timeout=DAY).train()
        return found


class Site(PassiveSite):
    """A site: by its configuration the one with the labels, or one without, whose methods the label site calls."""

    def __init__(self) -> None:
        """Wait for :meth:`initialize`: NVFlare makes one object for all sites."""

    @collab.init
    def initialize(self) -> None:
        """Read the folder of this site's files from the job's configuration."""
        self.folder = Path(collab.get_app_prop("folder"))

    begin = collab.publish(PassiveSite.begin)
    embed = collab.publish(PassiveSite.embed)
    learn = collab.publish(PassiveSite.learn)
    embed_test = collab.publish(PassiveSite.embed_test)
    weights = collab.publish(PassiveSite.weights)

    @collab.publish
    def train(self) -> dict[str, float]:
        """Train with all seeds of the exported setting, at the label site."""
        import torch
        from label_site import report, train

        from tune_vfl import load_config

        cfg, csv = load_config(collab.get_app_prop("config")), collab.get_app_prop("csv")
        passive = [site for site in collab.clients if site.name != "label"]
        wire = getattr(torch, collab.get_app_prop("wire"))
        found = report(cfg, [train(cfg, passive, seed, csv, wire=wire) for seed in cfg.seeds])
        return dict(zip(("utility", "leakage"), found.objectives, strict=True))
