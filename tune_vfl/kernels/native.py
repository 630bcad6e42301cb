"""The passes in machine code, where there is a compiler; the passes in torch do the same work."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_int64, c_void_p
from functools import cache

import torch
from torch import Tensor

from tune_vfl.kernels.compiled import compiled
from tune_vfl.kernels.form import Form

FEW = 64
"""Rows that lie close enough together wherever they begin."""
MOST_COLUMNS, MOST_WEIGHTS = 256, 2048
"""Columns that a layer reads, and weights for each lane, with which narrow registers are still faster than torch."""
WIDEST = 16
"""Lanes of a register with which no layer is too large."""
ACTIVATIONS = ("none", "relu", "leaky_relu")


class _LayerStruct(ctypes.Structure):
    _fields_ = (*((name, c_int64) for name in ("d_in", "d_out", "weight", "bias", "activation")), ("slope", c_double))


class _ChainStruct(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("members", "seeds", "rows", "padded", "stride", "count")),
        ("layers", ctypes.POINTER(_LayerStruct)),
    )


class NativePasses:
    """Compiled twins of :mod:`tune_vfl.kernels.passes`, with the same arguments."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._forward, self._backward = library.forward, library.backward
        self._kept_room, self._work_room = library.kept_room, library.work_room
        library.lanes.restype = self._kept_room.restype = self._work_room.restype = c_int64
        self._lanes = int(library.lanes())
        self._forward.argtypes = (c_void_p,) * 3 + (c_int64,) * 2 + (c_void_p,) * 2
        self._backward.argtypes = (c_void_p,) * 3 + (c_int64,) * 2 + (c_void_p,) * 4
        self._kept_room.argtypes = self._work_room.argtypes = (c_void_p,)
        self._forward.restype = self._backward.restype = None

    def suits(self, form: Form) -> bool:
        """Whether it is faster than torch: on narrow registers it is not for large layers (benchmarks.kernels)."""
        most = MOST_WEIGHTS * self._lanes
        small = (one.d_in <= MOST_COLUMNS and one.d_in * one.d_out <= most for one in form.layers)
        return self._lanes >= WIDEST or all(small)

    def forward(self, form: Form, line: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Take rows through a chain; see :func:`tune_vfl.kernels.passes.forward`."""
        x = _with_whole_rows(x)
        seeds, rows, _ = x.shape
        chain = self._chain(form, seeds, rows)
        address = ctypes.addressof(chain)
        kept, result = torch.empty(self._kept_room(address)), torch.empty(form.members, rows, form.widths[-1])
        self._forward(address, line.data_ptr(), *_placed(x), kept.data_ptr(), result.data_ptr())
        return result, [kept]

    def backward(
        self, form: Form, line: Tensor, x: Tensor, kept: list[Tensor], grad: Tensor, *, to_x: bool
    ) -> tuple[Tensor | None, Tensor]:
        """Take a gradient back through a chain; see :func:`tune_vfl.kernels.passes.backward`."""
        grad = _with_whole_rows(grad)
        chain = self._chain(form, len(x), x.shape[-2])
        address, found = ctypes.addressof(chain), torch.empty_like(line)
        work = torch.empty(self._work_room(address))
        reached = torch.empty(form.members, *x.shape[1:]) if to_x else None
        self._backward(
            address,
            line.data_ptr(),
            *_placed(grad),
            kept[0].data_ptr(),
            work.data_ptr(),
            found.data_ptr(),
            None if reached is None else reached.data_ptr(),
        )
        return reached, found

    def _chain(self, form: Form, seeds: int, rows: int) -> _ChainStruct:
        key = (seeds, rows)
        if key not in form.memo:
            layers = (_LayerStruct * len(form.layers))(
                *(
                    _LayerStruct(
                        one.d_in, one.d_out, one.weight, one.bias, ACTIVATIONS.index(one.activation), one.slope
                    )
                    for one in form.layers
                )
            )
            padded = -(-rows // self._lanes) * self._lanes
            # Columns that begin a power of two apart would push each other out of the cache.
            stride = padded if padded <= FEW or padded // self._lanes % 2 else padded + self._lanes
            form.memo[key] = _ChainStruct(form.members, seeds, rows, padded, stride, len(layers), layers)
        chain: _ChainStruct = form.memo[key]
        return chain


def _with_whole_rows(x: Tensor) -> Tensor:
    """Return matrices ``(N, B, d)`` whose rows' numbers lie side by side."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _placed(x: Tensor) -> tuple[int, int, int]:
    """Return where matrices begin, and how far apart they and their rows lie."""
    return x.data_ptr(), x.stride(0), x.stride(-2)


@cache
def native_passes() -> NativePasses | None:
    """Return the native passes of this machine; None without."""
    library = compiled()
    return None if library is None else NativePasses(library)
