"""The methods of the library itself; tests register some of their own."""

from typing import Any

from tune_vfl.registry import Registry


def own_names(registry: Registry[Any]) -> list[str]:
    """Return the names of the methods that the registry's own package defines, sorted."""
    return [name for name in registry.names() if registry[name].__module__.startswith(f"{registry.package}.")]
