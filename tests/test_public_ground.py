"""The program calls only what a dependency documents: private names, patched modules and foreign tables are found."""

import ast
from typing import NamedTuple

import pytest

from benchmarks.public_ground import all_uses, uses


class Exceptions(NamedTuple):
    """Uses that a file may have.

    Attributes:
        names: of them, as ``python -m benchmarks.public_ground`` prints them.
        reason: why, and until when.
    """

    names: str
    reason: str


# What is still allowed. The list may only become shorter: a line that is not needed any more fails.
EXCEPTIONS = {
    "tune_vfl/__main__.py": Exceptions(
        "gc.set_threshold gc.freeze", "the one place that steers the collector: a second of each verb's start and end"
    ),
    "tune_vfl/data/reading/batches.py": Exceptions(
        "numpy._core.multiarray", "nothing of numpy's is called: CIFAR's files, which are pickles, name it"
    ),
    "tune_vfl/execution/watchdogs.py": Exceptions(
        "os._exit", "calls of Ray wait for a dead head where nothing interrupts them, and after a minute Ray aborts"
    ),
    "tune_vfl/machine/ray_folder.py": Exceptions("RAY_TMPDIR", "Ray follows it, and it is a user's to set"),
}


def test_nothing_undocumented_is_used_but_what_is_listed() -> None:
    found = {name: {use.name for use in some} for name, some in all_uses().items()}
    allowed = {name: set(exceptions.names.split()) for name, exceptions in EXCEPTIONS.items()}
    new = {name: sorted(rest) for name, some in found.items() if (rest := some - allowed.get(name, set()))}
    gone = {name: sorted(rest) for name, some in allowed.items() if (rest := some - found.get(name, set()))}
    print(f"private uses {sum(map(len, all_uses().values()))} in {len(found)} files")
    assert new == {}, "call what the library documents instead"
    assert gone == {}, "these exceptions are not needed any more: take them off the list"


CAUGHT = {
    "a private module": "from ray._private import node",
    "a private name": "from torch.autograd.graph import _engine_run_backward as run",
    "a private module by name": "import importlib\nimportlib.import_module('ray._raylet')",
    "a private module that runs": "import runpy\nrunpy.run_module('ray._private.workers.default_worker')",
    "a private module in a program": "PROGRAM = '''\nimport sys\nfrom ray._raylet import GcsClient\n'''",
    "an internal module": "from ray.air.execution._internal import RayActorManager",
    "a hidden module": "from ray.experimental import internal_kv",
    "a module of a command": "['-m', 'ray.scripts.scripts']",
    "a patched class": "from ray.tune import Tuner\nTuner.fit = print",
    "a patched module": "import ray.tune as tune\ntune.run = print",
    "a class patched by name": "import mlflow\nsetattr(mlflow.MlflowClient, 'search_runs', print)",
    "a private attribute": "def f(storage):\n    return storage._backend",
    "a private attribute of a base": "class A(Adam):\n    def step(self):\n        self._init_group(1)",
    "a private attribute by name": "def f(storage):\n    return getattr(storage, '_backend')",
    "a private function of a module": "import torch\ntorch._fused_adam_()",
    "an attribute that no page names": "def f(trial):\n    return trial.temporary_state.ray_actor",
    "a trial's own notes": "def f(trial):\n    trial.run_metadata.error_file = ''",
    "Optuna's tables": "from optuna.storages._rdb import models",
    "MLflow's tables": "from mlflow.store.tracking.dbmodels.models import SqlRun",
    "rows of Optuna's": "query = 'SELECT value_json FROM trial_user_attributes WHERE trial_id = 3'",
    "rows of MLflow's": "connection.execute('DELETE FROM experiments')",
    "a method without its wrapper": "from inspect import unwrap\nunwrap(print)",
    "a dictionary of a module": "import numpy as np\nvars(np).setdefault('f2py', None)",
    "an import undone": "import sys\ndel sys.modules['torchvision']",
    "a module made callable": "import sys\nsys.modules[__name__].__class__ = int",
    "a library's folder": "from importlib.util import find_spec\nfind_spec('sklearn')",
    "an undocumented variable": "import os\nos.environ['RAY_prestart_worker_first_driver'] = '0'",
    "a private argument": "import ray\nray.init(_system_config={})",
    "an end without an end": "import os\nos._exit(1)",
    "a steered collector": "import gc\ngc.freeze()",
    "a disk": "run('sudo', 'mkfs.ext4')",
    "a port scanner": "for table in ('tcp', 'tcp6'):\n    read(table)",
}
FREE = {
    "documented names": "import ray\nray.init(num_cpus=1, namespace='a')\nray.util.state.list_nodes()",
    "private names of its own": "class A:\n    _a = 3\n    def f(self, other):\n        return self._a - other._a",
    "dunders": "class A(B):\n    def __init__(self):\n        super().__init__()\n        self.__dict__.update({})",
    "a named tuple": "found._replace(a=1)._asdict()",
    "a documented variable": "import os\nos.environ['RAY_ADDRESS'] = ''\n'RAY_AUTH_'",
    "a name in words": "def f():\n    '''See ray._private.'''\n'from ray.tune import run'",
    "its own tables": "'SELECT name FROM campaigns'",
    "an attribute of an object": "import torch\nx = torch.ones(1)\nx.grad = None",
    "a flag of torch": "def f(model):\n    model.training = True",
}


@pytest.mark.parametrize("text", CAUGHT.values(), ids=CAUGHT)
def test_every_kind_of_undocumented_use_is_found(text: str) -> None:
    assert uses(ast.parse(text)) != []


@pytest.mark.parametrize("text", FREE.values(), ids=FREE)
def test_what_is_documented_or_its_own_is_free(text: str) -> None:
    assert uses(ast.parse(text)) == []
