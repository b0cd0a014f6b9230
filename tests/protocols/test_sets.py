import pytest
from tests.conftest import save_stripes

from semppl.core.errors import UserError
from semppl.data.wnids import imagenet_r_indices, wnid_index
from semppl.protocols import sets as module
from semppl.protocols.sets import find_families, find_transfers
from semppl.protocols.settings import EvaluateFlags

RENDITION = list(wnid_index())[imagenet_r_indices()[0]]


@pytest.fixture
def renditions(tmp_path):
    save_stripes(tmp_path / "imagenet-r" / RENDITION, [0])
    return tmp_path


def flags(root, *sets, protocol=("robustness",)):
    return EvaluateFlags(root=root, sets=sets, protocol=protocol)


def test_by_default_all_that_are_there(renditions, birds):
    assert [found.family for found in find_families(flags(renditions))] == ["imagenet-r"]
    assert [data.name for data in find_transfers(flags(birds, protocol=("transfer",)))] == ["Birdsnap"]


def test_nothing_there_is_one_line_that_says_where_to_put_it(tmp_path):
    with pytest.raises(UserError, match=r"imagenet-v2 is not in .*: put imagenetv2.*others? .*--sets NAME"):
        find_families(flags(tmp_path))
    with pytest.raises(UserError, match=r"Food101 .*is not in .*the other sets are not there either"):
        find_transfers(flags(tmp_path, protocol=("transfer",)))


def test_what_is_asked_for_must_be_there(renditions, birds):
    with pytest.raises(UserError, match=r"objectnet is not in .*: put objectnet-1.0/"):
        find_families(flags(renditions, "imagenet-r", "objectnet"))
    with pytest.raises(UserError, match="unknown family"):
        find_families(flags(renditions, "imagenet-x"))
    with pytest.raises(UserError, match="unknown transfer set 'Birds'"):
        find_transfers(flags(birds, "Birds", protocol=("transfer",)))


def test_only_what_is_asked_for_is_downloaded(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        module, "load_transfer", lambda name, *_, download, **__: asked.append((name, download))
    )
    find_transfers(flags(tmp_path, "DTD", protocol=("transfer",)))
    find_transfers(flags(tmp_path, protocol=("transfer",)))
    assert asked[0] == ("DTD", True)
    assert len(asked) == 12
    assert not any(download for _, download in asked[1:])


def test_beside_each_other_both_protocols_take_their_own_names(renditions, birds):
    both = flags(renditions, "imagenet-r", "birdsnap", protocol=("robustness", "transfer"))
    assert renditions == birds, "one root"
    assert [found.family for found in find_families(both)] == ["imagenet-r"]
    assert [data.name for data in find_transfers(both)] == ["Birdsnap"]
