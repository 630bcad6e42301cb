"""Samplers: the same suggestions as ever from the same seed, one registry, plug-ins, and an unknown name answered."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.simulated import Simulation, simulate
from tune_vfl.cli.main import main
from tune_vfl.driver.planning import planned_campaign, refuse_mistakes
from tune_vfl.driver.proposals import Proposals
from tune_vfl.errors import SpecError
from tune_vfl.outcome import read_outcome
from tune_vfl.samplers.base import SAMPLERS, listed_points, unknown_sampler
from tune_vfl.spaces.space import parse_space

WIDE = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}
RAW = {"study": "s", "dataset": "breast_cancer", "defense": "laplace", "attacks": ["norm"]}

# What these samplers proposed before there was a registry of them, with seed 7 and packs of three.
# All samplers but the grid begin at random, tpe and nsga2 for longer.
BEGUN = [
    0.003097793369849397,
    0.00016436325861696126,
    0.0010491983920993164,
    0.0005854156613389937,
    0.00021401139959274998,
    0.00016854582970473727,
]
LONGER = [
    *BEGUN,
    0.017293759263486946,
    0.0023998139157507203,
    5.535651835731969e-05,
    0.0012488830129593236,
    0.001510549492687825,
    7.398274795005456e-05,
]
GOLDEN = {
    "tpe": [
        *LONGER,
        2.0305058971717425e-05,
        0.016568841149080225,
    ],
    "nsga2": [
        *LONGER,
        0.0008434383296112331,
        0.0001319432131035961,
    ],
    "random": BEGUN,
    "grid": [
        0.0012216773489967926,
        0.000548441657612102,
        0.1,
        4.9619476030029035e-05,
        0.00024620924014946265,
        1.4924955450518299e-05,
        0.000164964807409802,
        0.013503140378698743,
    ],
    "gp": BEGUN,
}

PLUG_IN = """
from tune_vfl.samplers.base import Sampler, sampler


@sampler("halves")
class Halves(Sampler):
    summary = "ends and middle of each range"

    @classmethod
    def build(cls, seed, *, budget):
        from optuna.samplers import RandomSampler

        return RandomSampler(seed=seed)

    @classmethod
    def points(cls, space, budget):
        return space.grid(3)
"""
USE = """
import json
from tests.helpers.ledgers import open_ledger
from tune_vfl.cli.main import main
from tune_vfl.driver.proposals import Proposals

main(["list", "samplers", "--json"])
main(["validate", "--schema"])
space = {"scale": {"float": [0.25, 0.75]}}
ledger = open_ledger(sampler="halves", defense={"name": "laplace", "space": space})
print(json.dumps([ledger.most(), sorted(a.params["scale"] for a in Proposals(ledger).ask(9))]))
"""


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path))


@pytest.mark.parametrize("name", GOLDEN)
def test_a_seed_gives_the_suggestions_that_it_always_gave(name):
    ledger = open_ledger(sampler={"name": name, "seed": 7}, defense=WIDE, budget={"trials": 24})
    proposals = Proposals(ledger)
    points = []
    while len(points) < len(GOLDEN[name]):
        asked = proposals.ask(3)
        points += [one.params["scale"] for one in asked]
        for one in asked:
            outcome = simulate(Simulation(noise=0.01), ledger.cell, one.params).model_dump(mode="json")
            proposals.learn(ledger.tell(one.number, read_outcome(outcome)))
    assert points[: len(GOLDEN[name])] == pytest.approx(GOLDEN[name], rel=1e-9)


def test_every_registered_sampler_says_what_it_is():
    assert {"tpe", "nsga2", "random", "grid", "gp"} <= set(SAMPLERS)
    for name in SAMPLERS:
        assert SAMPLERS[name].name == name
        assert SAMPLERS[name].summary
        assert SAMPLERS[name].reference


def test_only_a_list_has_points():
    space = parse_space({"scale": {"choice": [0.1, 0.2]}}, "space")
    assert listed_points("grid", space, 40) == [{"scale": 0.1}, {"scale": 0.2}]
    assert [listed_points(name, space, 40) for name in ("tpe", "not installed here")] == [None, None]


def test_an_unknown_sampler_is_answered_with_the_nearest_and_with_every_other_problem():
    assert unknown_sampler("tpe") == []
    (problem,) = unknown_sampler("nsga")
    assert problem == "unknown sampler 'nsga'. Did you mean 'nsga2'? Known: gp, grid, nsga2, random, tpe."
    alone = {**RAW, "sampler": "nsga"}
    for wrong, words in [
        ({}, []),
        ({"attacks": ["norms"]}, ["unknown attack 'norms'"]),
        ({"budget": {"trials": 0}}, ["budget.trials"]),
        ({"defense": {"name": "laplace", "space": {"scle": {"float": [0, 1]}}}}, ["defense.space.scle"]),
        ({"attacks": ["norms"], "defense": {"name": "laplace", "space": "defaults"}}, ["norms", "'defaults'"]),
    ]:
        for refuse in (planned_campaign, lambda raw: refuse_mistakes([raw])):
            with pytest.raises(SpecError) as refused:
                refuse({**alone, **wrong})
            assert problem in refused.value.problems
            assert refuse is not planned_campaign or all(w in str(refused.value) for w in words)


def test_no_verb_takes_an_unknown_sampler(capsys):
    words = ["evaluate", "-d", "breast_cancer", "-a", "norm", "--set", "sampler.name=nsga"]
    assert main(words) == 2
    assert "Did you mean 'nsga2'?" in capsys.readouterr().err


def test_a_sampler_of_ones_own_is_listed_checked_and_used(tmp_path):
    (tmp_path / "halves.py").write_text(PLUG_IN)
    info = tmp_path / "halves-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halves\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tune_vfl.samplers]\nhalves = halves\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listed, schema, asked = (json.loads(line) for line in done.stdout.splitlines())
    assert {"name": "halves", "summary": "ends and middle of each range", "reference": "Optuna"} in listed["items"]
    assert "halves" in schema["$defs"]["SamplerSpec"]["properties"]["name"]["enum"]
    assert asked == [3, [0.25, 0.5, 0.75]]
