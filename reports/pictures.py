"""The picture of reconstructed images: the originals, and below them a line for each model and attack."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.looks import own_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from tune_vfl.evaluation.pictured import Pictured


class Lines(NamedTuple):
    """A model's lines: its name, and the images that each attack reconstructs."""

    called: str
    found: Sequence[Pictured]


def drawn(models: Sequence[Lines]) -> bytes:
    """Draw the images as a PNG.

    Attacks on the same images share their line of originals.

    Args:
        models: the undefended one first; at least one with reconstructed images.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = list(_lines(models))
    across = max(len(images) for _, images in lines)
    height, width = lines[0][1].shape[-2:]
    size = (2.7 + 0.75 * across, 0.75 * height / width * len(lines) + 0.2)
    with own_settings():
        drawing = Figure(figsize=size, dpi=110, facecolor="white")
        FigureCanvasAgg(drawing)
        left = 2.6 / drawing.get_figwidth()
        edges = {"left": left, "right": 0.995, "bottom": 0.01, "top": 0.99}
        grid = drawing.add_gridspec(len(lines), across, wspace=0.05, hspace=0.06, **edges)
        for at, (name, images) in enumerate(lines):
            for place in range(across):
                _image(drawing.add_subplot(grid[at, place]), images, place)
            drawing.text(left - 0.01, 1 - (at + 0.5) / len(lines), name, ha="right", va="center", fontsize=9)
        held = BytesIO()
        drawing.savefig(held, format="png")
    return held.getvalue()


def _lines(models: Sequence[Lines]) -> list[tuple[str, NDArray[Any]]]:
    """Return each line's name and images, originals above their reconstructions."""
    lines: list[tuple[str, NDArray[Any]]] = []
    attacks = list(dict.fromkeys(p.attack for model in models for p in model.found))
    shown = None
    for attack in attacks:
        of_attack = [(model.called, p) for model in models for p in model.found if p.attack == attack]
        true = of_attack[0][1].true
        if shown is None or shown.shape != true.shape or not shown.equal(true):
            shown = true
            lines.append(("originals", true.numpy()))
        lines += [(f"{called}\n{attack}, MSE {p.mse:.3f}", p.found.numpy()) for called, p in of_attack]
    return lines


def _image(axes: Axes, images: NDArray[Any], place: int) -> None:
    axes.set_axis_off()
    if place < len(images):
        image = images[place].transpose(1, 2, 0)
        axes.imshow(image if image.shape[-1] == 3 else image[..., 0], cmap="gray", vmin=0, vmax=1)
