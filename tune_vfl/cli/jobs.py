"""``tune-vfl submit``, ``pull`` and ``jobs``: studies and campaigns on a cluster, through Ray's Jobs API."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json, Name, Settings, Storage, TakeOver, checked
from tune_vfl.cli.output import emit, emit_json, emit_table, note, say
from tune_vfl.cli.study import MAX_MIB, MaxMib, NewName, put_here

if TYPE_CHECKING:
    from tune_vfl.cluster.jobs import ClusterJob, Jobs, Where
    from tune_vfl.cluster.studies import Started

SCHEMA = "tune-vfl/jobs/1"
BEGINNING_SECONDS = 5.0

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        "--address",
        metavar="NAME|URL",
        help="A cluster of ~/.config/tune-vfl/clusters.yaml, or the URL of a dashboard; by default "
        "RAY_API_SERVER_ADDRESS, RAY_ADDRESS if it is a URL, or http://127.0.0.1:8265.",
    ),
]
Home = Annotated[
    str | None,
    typer.Option("--home", metavar="DIR", help="TUNE_VFL_HOME on the cluster; by default the cluster's own."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Follow the log and print the front at the end.")]
Trials = Annotated[int | None, typer.Option("--trials", min=1, help="Finished trials to end with.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, as `submit` and `jobs list` print it.")]

app = typer.Typer(help="What runs on a cluster: list, logs, stop, resume.", no_args_is_help=True)


def submit(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A YAML spec.")],
    cluster: Cluster = None,
    settings: Settings = None,
    trials: Trials = None,
    home: Home = None,
    wait: Wait = False,
    take_over: TakeOver = False,
    json: Json = False,
) -> None:
    """Run a spec on a Ray cluster. The spec travels, and so do its own data files, up to 64 MiB together.

    A campaign is one job. What runs there is joined, what was stopped goes on, more trials or another defense extend
    it; of what is finished the front is printed, and that it was finished.

    The token is read from RAY_AUTH_TOKEN, the file at RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token.

    Example: `tune-vfl submit study.yaml --cluster http://127.0.0.1:8265 --wait`
    """
    from tune_vfl.cluster import studies
    from tune_vfl.cluster.shipping import stays_here
    from tune_vfl.spec.raw import read_yaml

    budget = [f"budget.trials={trials}"] if trials else []
    raw = checked(read_yaml(spec, note), [*(settings or ()), *budget], _usable)
    jobs, where = _open(cluster, home)
    if left := stays_here(raw):
        say(f"warning: {left}")
    _attend(jobs, studies.submit(jobs, raw, where, take_over=take_over), cluster, wait=wait, json=json)


def pull(
    named: Name,
    cluster: Cluster = None,
    home: Home = None,
    name: NewName = None,
    max_mib: MaxMib = MAX_MIB,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Fetch a study or a campaign from a cluster, as it stands there, into the ledger here; every verb reads it then.

    Pulled again, it is brought up to date. Its data, MLflow and reports do not travel: MLflow is written here anew.

    Example: `tune-vfl pull kdk-bank --cluster http://127.0.0.1:8265`
    """
    from tune_vfl.cluster import studies

    jobs, where = _open(cluster, home)
    put_here(studies.pull(jobs, named, where, max_mib * 2**20), name, storage, json=json)


def _attend(jobs: Jobs, started: Started, cluster: str | None, *, wait: bool, json: bool) -> None:
    """Print a job's id, or follow it to its end and print its result."""
    job_id = started.job
    if started.joined:
        say(f"it is being run already, by job {job_id}: joined it, nothing was submitted")
    if not wait:
        answer = {"schema": SCHEMA, "job": job_id, "address": jobs.address, "joined": started.joined}
        emit_json(answer) if json else emit(job_id)
        if place := _place(jobs, job_id):
            say(f"it waits for a driver's seat on the head, at place {place} of the queue")
        say(f"follow it: tune-vfl jobs logs {job_id} --follow --cluster {cluster or jobs.address}")
        return
    say(f"job {job_id}; Ctrl-C leaves it running")
    job = jobs.follow(job_id, _progress)
    _show_end(job, jobs.logs(job_id), json=json)


def _place(jobs: Jobs, job_id: str) -> int:
    """Return a job's place in the queue of drivers; 0 for one that begins within seconds."""
    until = time.monotonic() + BEGINNING_SECONDS
    while (place := jobs.get(job_id).place) and time.monotonic() < until:
        time.sleep(0.5)
    return place


def _progress(line: str) -> None:
    """Print a line of a job's log on stderr, except the final answer."""
    from tune_vfl.cluster.jobs import is_answer

    if not is_answer(line):
        say(line)


def _usable(raw: dict[str, Any]) -> dict[str, Any]:
    """Reject a spec that the cluster would reject; data may exist only there, so nothing is loaded."""
    from tune_vfl.cluster.studies import refuse_passwords
    from tune_vfl.driver.planning import refuse_mistakes, with_all_defenses
    from tune_vfl.spec.raw import expand

    refuse_mistakes(expand(with_all_defenses(raw)))
    refuse_passwords(raw)
    return raw


def _open(named: str | None, home: str | None = None) -> tuple[Jobs, Where]:
    """Connect to a cluster, and print the location of its ledger."""
    from tune_vfl.cluster.dashboard import ask, find_token
    from tune_vfl.cluster.jobs import Jobs, Where
    from tune_vfl.cluster.profiles import find_profile
    from tune_vfl.machine.web import WebServer, is_loopback

    profile = find_profile(named)
    url, named_by_user = profile.address, profile.token_file is not None
    server = WebServer(url, find_token(profile.token_file), named=named_by_user)
    if named_by_user and url.startswith("http://") and not is_loopback(url):
        say(f"warning: the token travels unencrypted to {url}; forward the dashboard to this machine instead")
    jobs = Jobs(server)
    if ask(WebServer(url)) == "open":
        say(f"warning: {url} is open without a token: whoever reaches it can run code there (see `tune-vfl doctor`)")
    return jobs, Where(home or profile.home, profile.storage)


def _show_end(job: ClusterJob, log: str, *, json: bool) -> None:
    from tune_vfl.cli.search import exit_code
    from tune_vfl.cli.studies import emit_summary
    from tune_vfl.cluster.jobs import answers_in

    found = answers_in(log)
    for summary in found:
        if json:
            emit_json(summary)
        else:
            emit_summary(summary)
    if job.status != "SUCCEEDED":
        # Ray repeats the end of the log, which was shown already.
        say(f"tune-vfl: job {job.id} ended {job.status}: {job.message.partition(', last available logs')[0]}")
        raise typer.Exit(3 if any(exit_code(summary) for summary in found) else 1)
    if not found:
        say(f"tune-vfl: job {job.id} succeeded but printed no study; see `tune-vfl jobs logs {job.id}`")
        raise typer.Exit(1)


@app.command("list")
def list_jobs(cluster: Cluster = None, json: Json = False) -> None:
    """List the cluster's jobs, the newest first, with the packs of each that run and that wait for room.

    Example: `tune-vfl jobs list --cluster http://127.0.0.1:8265`
    """
    found = _open(cluster)[0].list(with_packs=True)
    if json:
        emit_json({"schema": SCHEMA, "jobs": [dataclasses.asdict(job) for job in found]})
        return
    rows = [
        [
            *(job.id, f"{job.status}, place {job.place}" if job.place else job.status),
            *(job.does, job.study, str(job.running), str(job.waiting)),
            *(_when(job.started), _when(job.ended), job.message),
        ]
        for job in found
    ]
    say("Ray forgets jobs when its head starts anew; `tune-vfl jobs studies` lists what is kept there")
    columns = ("job", "status", "does", "name", "packs", "waiting", "started (UTC)", "ended (UTC)", "message")
    emit_table(columns, rows)


@app.command("studies")
def studies_there(cluster: Cluster = None, home: Home = None, json: Json = False) -> None:
    """List the studies that a cluster keeps, also those of before its head was started anew.

    Each is running, stopped or finished; `tune-vfl jobs resume NAME` goes on with one that is stopped.

    Example: `tune-vfl jobs studies --cluster http://127.0.0.1:8265`
    """
    from tune_vfl.cli.studies import SCHEMA as STUDIES
    from tune_vfl.cli.studies import emit_studies
    from tune_vfl.cluster import studies

    found = studies.listed(*_open(cluster, home))
    if json:
        emit_json({"schema": STUDIES, "studies": found})
    elif found:
        emit_studies(found)
    else:
        say("no studies are kept there")


@app.command("logs")
def logs(
    job: JobId,
    cluster: Cluster = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
) -> None:
    """Print the log of a job.

    Example: `tune-vfl jobs logs raysubmit_x2Tq --follow`
    """
    jobs = _open(cluster)[0]
    if not follow:
        emit(jobs.logs(job).rstrip("\n"))
        return
    jobs.follow(job, emit)


@app.command("stop")
def stop(job: JobId, cluster: Cluster = None, json: Json = False) -> None:
    """Stop a job; its studies can be resumed.

    Example: `tune-vfl jobs stop raysubmit_x2Tq`
    """
    was_running = _open(cluster)[0].stop(job)
    if json:
        emit_json({"schema": SCHEMA, "job": job, "was_running": was_running})
    else:
        emit(f"{job}: {'stopping' if was_running else 'had already ended'}")


@app.command("resume")
def resume(
    study: Annotated[str, typer.Argument(metavar="NAME|JOB", help="A study or campaign on the cluster, or a job.")],
    cluster: Cluster = None,
    trials: Trials = None,
    home: Home = None,
    wait: Wait = False,
    take_over: TakeOver = False,
    json: Json = False,
) -> None:
    """Finish a stopped study or campaign on the cluster, in a new job; `--trials N` is a new budget in all.

    Example: `tune-vfl jobs resume kdk-bank --trials 80 --wait`
    """
    from tune_vfl.cluster import studies

    jobs, where = _open(cluster, home)
    _attend(jobs, studies.resume(jobs, study, where, trials, take_over=take_over), cluster, wait=wait, json=json)


def _when(seconds: float | None) -> str:
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
