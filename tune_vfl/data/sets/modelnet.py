"""ModelNet40: things seen from twelve sides, two sides at each of six parties, the labels at a seventh."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, dataset
from tune_vfl.data.options import MetricChoice
from tune_vfl.data.partition import passive_names
from tune_vfl.data.reading.files import find_folder, locate
from tune_vfl.data.reading.pictures import pictures_of, read_pictures, visible
from tune_vfl.data.reading.public_images import scaled_images
from tune_vfl.data.sample import incomplete, training_sample
from tune_vfl.errors import DataError
from tune_vfl.spec import Strict, Training

VIEWS = 12
_PLACES = ("modelnet40_images_new_12x", "modelnet40v1png")
_ADDRESS = (
    "https://github.com/jongchyisu/mvcnn_pytorch (modelnet40_images_new_12x.tar.gz), or "
    "https://github.com/kanezaki/pytorch-rotationnet (modelnet40v1png.tar): 12 views an object"
)
_OFFICIAL = (9_843, 2_468)
# airplane_0001.obj.shaded_v001.png in one of the two folders, airplane_0001_001.png in the other.
_NAME = re.compile(r"(?P<object>.+)_v?(?P<view>\d{3})")


class ModelnetOptions(Strict):
    """The number of parties that share the views, and the size of the pictures."""

    passive_parties: Literal[1, 2, 3, 4, 6, 12] = Field(
        6, description="number of passive parties, each with as many neighboring views of the twelve"
    )
    size: int = Field(32, ge=8, le=256, description="side that the pictures are resized to")
    rows: int | None = Field(
        None, ge=1, description="keep a stratified sample of so many rows to train on, for fast searches; none: all"
    )
    metric: MetricChoice = Field("auto", description="utility metric; auto: accuracy")


@dataset("modelnet")
class Modelnet(Loader[ModelnetOptions]):
    """A row is an object; each party holds two neighboring views of it in gray, ``(2, size, size)`` in [0, 1].

    FedAdOb has these seven parties. It counts 6,366 and 1,600 rows and does not say which; here all official 9,843 and
    2,468 are used, and ``rows`` keeps fewer. The recipe is LeNet, batches of 64, and 9 labeled rows a class for its 366
    in all. Its SGD 1e-2 for 100 epochs is ``training: {optimizer: sgd, lr: 0.01, weight_decay: 4.0e-5, epochs: 100}``.
    """

    summary = "9,843 + 2,468 objects from 12 sides, 40 classes; two views at each of six parties, labels at a seventh"
    reference = "Wu et al. 2015, ModelNet40; views of Su et al. 2018; parties of Gu et al. (FedAdOb)"
    Options = ModelnetOptions
    kept = True

    def load(self, options: ModelnetOptions, root: Path) -> Dataset:
        """Read ``CLASS/train`` and ``CLASS/test`` of ``modelnet40_images_new_12x``."""
        folder = find_folder(root, _PLACES, _ADDRESS)
        locate(str(folder), root, folder=True)
        classes = [place.name for place in visible(folder) if place.is_dir()]
        if len(classes) < 2:
            raise DataError(f"{folder}: has no folders of classes, such as airplane; unpack the archive again")
        train, test = ([_objects(folder / name / part, root) for name in classes] for part in ("train", "test"))
        objects = [views for found in (*train, *test) for views in found]
        counts = [len(found) for found in (*train, *test)]
        y = torch.from_numpy(np.repeat(np.tile(np.arange(len(classes)), 2), counts).astype(np.int64))
        rows = sum(counts[: len(classes)])
        kept, test_rows, sampled = training_sample(y, torch.arange(rows, len(y)), options.rows, classes, self.name)
        return assemble(
            self.name,
            (_parties([objects[k] for k in kept.tolist()], options), None),
            y[kept],
            classes,
            metric=options.metric,
            recipe=Recipe.of("lenet", Training(epochs=30, batch_size=64, lr=1e-3), 9),
            test_rows=test_rows,
            notes=(*incomplete("the folder holds", (rows, len(y) - rows), _OFFICIAL), *sampled),
            where=f"{folder}: its folders of classes",
        )


def _objects(folder: Path, root: Path) -> list[list[Path]]:
    """Return the twelve views of each object of one class and part, objects by name and views by number."""
    views: dict[str, dict[int, Path]] = {}
    for file in pictures_of(folder, root):
        named = _NAME.fullmatch(file.stem)
        if named is None:
            raise DataError(f"{file}: is not named as a view is, OBJECT_001 to OBJECT_012; unpack the archive again")
        views.setdefault(named["object"], {})[int(named["view"])] = file
    for name, found in views.items():
        if sorted(found) != [*range(1, VIEWS + 1)]:
            raise DataError(
                f"{folder}: {name} has {len(found)} views ({', '.join(map(str, sorted(found)))}), expected 1 to "
                f"{VIEWS}; unpack the archive of 12 views again"
            )
    return [[views[name][k] for k in range(1, VIEWS + 1)] for name in sorted(views)]


def _parties(objects: list[list[Path]], options: ModelnetOptions) -> tuple[Columns, ...]:
    each = VIEWS // options.passive_parties
    shape = (options.size, options.size)
    held = []
    for k, party in enumerate(passive_names(options.passive_parties)):
        files = [file for views in objects for file in views[k * each : (k + 1) * each]]
        pixels = read_pictures(files, shape, resize=True).reshape(len(objects), each, *shape)
        held.append(Columns(party, scaled_images(pixels.transpose(0, 2, 3, 1))))
    return tuple(held)
