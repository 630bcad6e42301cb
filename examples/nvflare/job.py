"""Train between sites in NVFlare, under the defense that a search found.

    python examples/nvflare/job.py best.json [loans.csv] [--sites 2] [--wire float16] [--record FOLDER]

The site ``label`` has tune-vfl. The sites ``site-1``, ``site-2`` ... have columns, and need it only under a defense
that runs there too. This is a rehearsal in NVFlare's simulator: what each site holds is prepared here,
from all columns, and the noise has the search's seed, which all sites know: it checks numbers and protects nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from nvflare.collab import CollabRecipe
from nvflare.recipe import SimEnv

os.environ.setdefault("OMP_NUM_THREADS", "1")  # all sites of the simulator share this machine's cores
EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.append(str(EXAMPLES))  # the sites' halves, which every framework's example shares

from label_site import prepare  # noqa: E402
from recorded_site import RecordedSite  # noqa: E402
from sites import RelayingServer, Site  # noqa: E402

from tune_vfl.errors import TuneVflError  # noqa: E402


def recipe(site: Site, config: str, csv: str | None, folders: list[str], wire: str) -> CollabRecipe:
    """Return the job: the server's and the sites' code, and each site's configuration."""
    job = CollabRecipe(job_name="defended", server=RelayingServer(), client=site, min_clients=len(folders) + 1)
    label = {"folder": "", "config": config, "csv": csv, "wire": wire}
    passive = {Path(folder).name: {"folder": folder} for folder in folders}
    job.set_per_site_config({"label": label, **passive})
    for half in ("passive_site.py", "label_site.py"):
        job.add_client_file(str(EXAMPLES / half))
    job.add_server_file(str(EXAMPLES / "passive_site.py"))
    job.finalize().set_app_packages(["tune_vfl"])  # installed at the label site; of a clone NVFlare would send parts
    return job


def main(config: str, csv: str | None, sites: int, wire: str, record: str | None) -> None:
    """Prepare the sites, and run the job in the simulator."""
    config, csv = str(Path(config).resolve()), csv and str(Path(csv).resolve())
    with tempfile.TemporaryDirectory() as place:
        folders = prepare(config, Path(record or place).resolve() / "sites", csv, sites)
        job = recipe(RecordedSite() if record else Site(), config, csv, folders, wire)
        job.execute(SimEnv(clients=job.configured_sites(), workspace_root=f"{place}/nvflare", log_config="ERROR"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="what tune-vfl export wrote")
    parser.add_argument("csv", nargs="?", help="the table of a study of one file, where it has moved since the search")
    parser.add_argument("--sites", type=int, default=1, help="how many sites without labels the study has; default 1")
    parser.add_argument("--wire", default="float32", choices=("float32", "float16"), help="type of what is sent")
    parser.add_argument("--record", help="folder in which each passive site leaves sites/site-N/recording.npz")
    given = parser.parse_args()
    try:
        main(given.config, given.csv, given.sites, given.wire, given.record)
    except TuneVflError as error:
        raise SystemExit(str(error)) from error
