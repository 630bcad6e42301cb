"""What a refusal must say."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tune_vfl.errors import DataError


@contextmanager
def refusal(*words: object, error: type[Exception] = DataError) -> Iterator[None]:
    """Expect an error whose message holds all these words."""
    with pytest.raises(error) as raised:
        yield
    said = str(raised.value)
    assert not [word for word in map(str, words) if word not in said], said
