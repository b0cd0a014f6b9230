import subprocess
import sys

import pytest

from semppl.ablate.settings import TABLES, AblateFlags, check_flags, labels_per_class, tables_of
from semppl.core.errors import UserError


@pytest.mark.parametrize(
    ("table", "flags", "words"),
    [
        ("votes", {}, "unknown table 'votes': choose from alpha, base"),
        ("k,votes", {}, "unknown table 'votes'"),
        (" , ", {}, "say which table: semppl ablate TABLE, one of base, parts"),
        ("k", {"seeds": 0}, "--seeds is 0: it must be at least 1"),
        ("k", {"jobs": -1}, "--jobs is -1"),
        ("k,alpha", {"per_class": (1,)}, "--per-class is of the table labels: leave it out of k, alpha"),
        ("labels", {"per_class": (4, 0)}, "--per-class is 0"),
        ("k", {"rows": ("method.k=2",)}, "--rows is of the table own: leave it out of k"),
        ("own", {}, "say what each row of the table own changes: --rows method.k=5"),
    ],
)
def test_what_cannot_work_is_refused(table, flags, words):
    with pytest.raises(UserError, match=words):
        check_flags(tables_of(table), AblateFlags(**flags))


def test_every_table_is_taken_as_it_is():
    for table in TABLES:
        assert tables_of(table) == (table,)
        check_flags([table], AblateFlags(rows=("method.k=2",) if table == "own" else ()))


def test_several_tables_are_joined_by_commas_and_each_counts_once():
    assert tables_of("voting,k, voting ,labels,") == ("voting", "k", "labels")
    check_flags(("voting", "labels"), AblateFlags(per_class=(1,)))


def test_numbers_of_labels_are_each_once_and_ascending():
    assert labels_per_class(AblateFlags(per_class=(10, 1, 10))) == (1, 10)
    assert labels_per_class(AblateFlags()) == (1, 2, 4, 10, 25)


def test_tables_and_flags_are_known_without_torch():
    code = "import sys, semppl.ablate.settings, semppl.ablate.tables, semppl.ablate.markdown as m; m.page"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True)
