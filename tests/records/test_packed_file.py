"""A packed study of a stranger: each row is JSON that can be read in one way only."""

import io
import json
import zipfile

import pytest

from tests.machine.test_plain_json import REFUSED
from tune_vfl.errors import ParcelError
from tune_vfl.records.packed import PACKED_SCHEMA
from tune_vfl.records.packed_file import HEAD, TABLES, from_bytes


@pytest.mark.parametrize("case", [case for case in REFUSED if case != "nothing"])
@pytest.mark.parametrize("place", [HEAD, "trials.jsonl"])
def test_a_row_that_is_no_plain_json_is_refused_by_its_file(case: str, place: str) -> None:
    texts = {HEAD: json.dumps({"schema": PACKED_SCHEMA, "program": "0"}), **{f"{table}.jsonl": "" for table in TABLES}}
    texts[place] = f'{{"schema": "{PACKED_SCHEMA}", "number": {REFUSED[case][0]}}}'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    with pytest.raises(ParcelError, match=rf"sent\.tvfl: is not a packed study: {place} (is not JSON|in it is larger)"):
        from_bytes(file.getvalue(), "sent.tvfl")
