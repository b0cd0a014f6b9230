import json
import re

import numpy as np
from tests.report.conftest import BYTES_FILE, EVIL_CLASS, EVIL_FILE

from semppl.report.collect import collect
from semppl.report.figures import heat
from semppl.report.payload import charts_data, embedded, exhibit_data, sha256
from semppl.report.thumbnails import Sheet


def test_data_cannot_leave_its_element():
    value = {EVIL_CLASS: [EVIL_FILE, "</script><!--", "a\u2028b", BYTES_FILE, "&lt;"]}
    text = embedded(value)
    assert not re.search(r"[<>&]", text)
    text.encode("ascii")
    assert json.loads(text) == {EVIL_CLASS: [EVIL_FILE, "</script><!--", "a\\u2028b", "caf\\xe9.jpg", "&lt;"]}


def test_a_script_by_its_sum():
    # echo -n "alert(1)" | openssl dgst -sha256 -binary | base64
    assert sha256("alert(1)") == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"


def test_thumbnails_and_maps(run_path):
    run = collect(run_path)
    places = np.arange(120, dtype=np.float32).reshape(60, 2)
    data = exhibit_data(run.exhibit, [Sheet("", 32, 3)], places)
    assert data["tiles"][0] == [0, 0.0, 0.0]
    assert data["tiles"][33] == [0, round(100 / 31, 3), 50.0]
    assert list(data["maps"]) == ["PCA", "UMAP"]
    assert data["maps"]["UMAP"][1][:3] == [1.0, 3.0, 5.0]
    assert len(data["gallery"]) == 30
    damaged = exhibit_data(run.exhibit, [None], None)
    assert set(damaged["tiles"]) == {None}
    assert list(damaged["maps"]) == ["PCA"]
    json.loads(embedded(data))


def test_charts_by_id():
    data = charts_data([heat("c", "t", [[1]], ["a"], summary="")])
    assert data["c"]["layout"]["height"] == 360
    assert data["c"]["readout"]["kind"] == "confusion"
