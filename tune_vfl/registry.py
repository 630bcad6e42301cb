"""A registry that fails loudly: collisions raise, an unknown name answers with the known ones and the nearest."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from tune_vfl.errors import SpecError, TuneVflError, UnknownNameError, UsageError, did_you_mean

T = TypeVar("T")

_LEFT = {("attack", name): ("0.2.0", "matched_filter") for name in ("gradient_em", "gradient_em_known")}
"""Names that specs of earlier releases have: the release without them, and what stands in their place."""


class Registry(Generic[T]):
    """Names of one kind of thing (defenses, attacks, data sets, models) and the classes behind them.

    The modules of ``package`` are imported at the first look-up, so that a new method is one new file and nothing else.
    Installed plug-ins register themselves the same way, found through the entry-point group ``tune_vfl.<kind>s``.

    Args:
        kind: what is registered, in the singular, as messages name it.
        package: the package whose modules register things.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._known: dict[str, type[T]] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Class decorator that files a class under ``name`` and sets its ``name``.

        The same definition may come again, as it does where the import of its file was cut short or a notebook's cell
        runs twice.

        Raises:
            TuneVflError: when the name is taken by another class.
        """

        def file(cls: type[T]) -> type[T]:
            taken = self._known.get(name)
            if taken is not None and _definition(taken) != _definition(cls):
                both = f"by {taken.__module__} and by {cls.__module__}"
                raise TuneVflError(f"{self.kind} {name!r} is registered twice: {both}; rename one")
            self._known[name] = cls
            cls.name = name  # type: ignore[attr-defined]
            return cls

        return file

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        try:
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self.package}.{module.name}")
            for point in entry_points(group=f"tune_vfl.{self.kind}s"):
                _load_plug_in(point)
        except BaseException:
            self._loaded = False  # cut short (Ctrl-C, a clock): the next look goes on, instead of knowing a part
            raise

    def __getitem__(self, name: str) -> type[T]:
        """Return the class filed under ``name``."""
        self._load()
        if name not in self._known:
            raise self.unknown(name)
        return self._known[name]

    def unknown(self, name: str) -> SpecError:
        """Return the error that answers a name under which no class is filed."""
        if (self.kind, name) not in _LEFT:
            return UnknownNameError(self.kind, name, self.names())
        release, now = _LEFT[self.kind, name]
        return SpecError(f"{self.kind} {name!r} left in {release}; {now} stands in its place")

    def __contains__(self, name: str) -> bool:
        self._load()
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def names(self) -> list[str]:
        """Return all names, sorted."""
        self._load()
        return sorted(self._known)

    def classes(self) -> list[type[T]]:
        """Return all classes, in the order of their names."""
        return [self[name] for name in self.names()]


def _definition(cls: type) -> tuple[str | None, str]:
    """Return the file and the name of a class: its module may have two names, one of which is ``__main__``."""
    return getattr(sys.modules.get(cls.__module__), "__file__", None), cls.__qualname__


def _load_plug_in(point: EntryPoint) -> None:
    """Import what an entry point names; whatever a stranger's package does instead, the message says whose it is.

    Raises:
        UsageError: when it raises, leaves the process, names no module, or registers a name that is taken.
    """
    try:
        point.load()
    except BaseException as error:
        if _is_from_outside(error):
            raise
        package = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
        module = point.value.partition(":")[0]
        # The class of the error may be the stranger's too, and its text raise another one.
        said = " ".join("".join(traceback.format_exception_only(error)).split())
        raise UsageError(
            f"the plug-in '{point.name} = {point.value}' (entry point {point.group}) of package {package} cannot be "
            f"loaded: {said}; `python -c 'import {module}'` shows where; mend the package or uninstall it"
        ) from error


def _is_from_outside(error: BaseException) -> bool:
    """Return whether an error came upon an import by Ctrl-C, a signal or a clock, rather than out of it.

    This package's own errors that are no ``Exception`` are those of its signals and clocks.
    """
    own = type(error).__module__.startswith("tune_vfl.") and not isinstance(error, Exception)
    return own or isinstance(error, KeyboardInterrupt)


def class_names(registry: Registry[T]) -> list[str]:
    """Return the names of the classes that the registry's own package defines, sorted; plug-ins keep to their own."""
    return sorted(_own_classes(registry))


def class_by_name(registry: Registry[T], name: str) -> type[T]:
    """Return a registered class of the registry's own package by the name of the class.

    The package calls this from its module-level ``__getattr__``: ``from tune_vfl.defenses import Marvell`` works, and a
    new method needs no line there.

    Args:
        registry: of the package.
        name: of the class, ``Marvell``; not the name it is registered under.

    Raises:
        AttributeError: when there is none, with the nearest names.
    """
    # Submodules are asked for in the same way. Their names are lower-case, and must not load all others first.
    own = _own_classes(registry) if name[:1].isupper() else {}
    if name not in own:
        raise AttributeError(f"module {registry.package!r} has no attribute {name!r}.{did_you_mean(name, own)}")
    return own[name]


def _own_classes(registry: Registry[T]) -> dict[str, type[T]]:
    found: dict[str, type[T]] = {}
    for cls in registry.classes():
        if not cls.__module__.startswith(f"{registry.package}."):
            continue
        taken = found.setdefault(cls.__name__, cls)
        if taken is not cls:
            raise TuneVflError(f"{taken.__module__} and {cls.__module__} both define {cls.__name__}; rename one")
    return found
