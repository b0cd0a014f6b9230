import json
import re
from types import SimpleNamespace

import huggingface_hub
import pytest
import yaml

from semppl.core.errors import RunError, UserError
from semppl.deploy.hub import check_push, model_card, push, write_card

HOSTILE = ("# title", "```", "</pre><script>", "two\n\nlines", "a | b", "图", "\udcff", "---")


def front_and_body(card):
    _, front, body = card.split("---\n", 2)
    return yaml.safe_load(front), body


@pytest.fixture
def hub(monkeypatch):
    """What the Hub was asked for; it can be made to fail."""
    asked = SimpleNamespace(calls=[], failure=None)

    class Api:
        def create_repo(self, name, **options):
            asked.calls.append(("create", name, options))
            if asked.failure is not None:
                raise asked.failure
            return f"https://hub.example/{name}"

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            asked.calls.append(("upload", repo_id, folder_path))

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "a token")
    return asked


@pytest.mark.parametrize("private", [True, False])
def test_a_folder_is_sent_to_its_own_place(private, hub, tmp_path):
    assert push(tmp_path, "ann/pets", private=private) == "https://hub.example/ann/pets"
    assert hub.calls == [
        ("create", "ann/pets", {"private": private, "exist_ok": True}),
        ("upload", "ann/pets", tmp_path),
    ]


class Refusal(Exception):
    """As those of the Hub: with the answer of the server."""

    def __init__(self, status):
        super().__init__(f"{status} Client Error\nRequest ID: 1234\n")
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Refusal(401), "refuses your token, 401: log in with `hf auth login`"),
        (Refusal(403), "refuses your token, 403"),
        (Refusal(500), r"\(Refusal: 500 Client Error\)"),
        (ConnectionError("no route\nto host"), r"\(ConnectionError: no route\)"),
        (TimeoutError(), r"\(TimeoutError\)"),
    ],
)
def test_every_failure_is_one_line_that_says_what_is_left(failure, words, hub, tmp_path):
    hub.failure = failure
    with pytest.raises(RunError, match=words) as caught:
        push(tmp_path, "ann/pets", private=True)
    assert str(caught.value).startswith(f"{tmp_path} is written, but not pushed to ann/pets")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("formats", [("timm", "safetensors"), ("onnx",), ("torchvision",)])
def test_one_format_at_a_time_that_the_hub_can_load(formats, hub):
    check_push("ann/pets", ("timm",))
    with pytest.raises(UserError, match=f"one format, safetensors or timm, not {' '.join(formats)}"):
        check_push("ann/pets", formats)


@pytest.mark.parametrize("name", ["pets", "ann/", "/pets", "a/b/c", "ann/my pets", "ann/..", "ann/pets\n"])
def test_a_name_is_a_user_and_a_name(name, hub):
    with pytest.raises(UserError, match="it is USER/NAME"):
        check_push(name, ("timm",))


def test_without_a_token_nothing_is_begun(hub, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    with pytest.raises(UserError, match="needs a token"):
        check_push("ann/pets", ("timm",))
    assert hub.calls == []


def test_the_card_says_what_the_model_is(make_network):
    front, body = front_and_body(model_card(make_network(), "timm", "ann/pets"))
    assert front == {"library_name": "timm", "pipeline_tag": "image-classification", "tags": ["semppl"]}
    for words in (
        "# pets\n",
        "logits of 3 classes",
        "`resnet10`, width 0.0625, small stem, symmetric padding",
        "8×8 px",
        "mean 0.5000, 0.4000, 0.3000",
        'timm.create_model("hf-hub:ann/pets", pretrained=True)',
        '    2: "owl"\n',
    ):
        assert words in body


def test_the_card_of_an_encoder_has_no_classes(make_network):
    front, body = front_and_body(model_card(make_network(classes=()), "safetensors", "ann/pets"))
    assert (front["library_name"], front["pipeline_tag"]) == ("semppl", "image-feature-extraction")
    assert "features of 32 numbers" in body
    assert 'semppl.load(snapshot_download("ann/pets"))' in body
    assert "Classes" not in body


@pytest.mark.parametrize("kind", ["timm", "safetensors"])
def test_the_python_of_the_card_is_python(kind, make_network):
    (code,) = re.findall(r"```python\n(.*?)```", model_card(make_network(), kind, "ann/pets"), flags=re.S)
    compile(code, "card", "exec")


def test_names_of_classes_cannot_become_markup(make_network, tmp_path):
    write_card(tmp_path, make_network(classes=HOSTILE), "timm", "ann/pets")
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    _, listed = card.split("## Classes\n\n")
    lines = listed.splitlines()
    assert len(lines) == len(HOSTILE)
    for number, (name, line) in enumerate(zip(HOSTILE, lines, strict=True)):
        prefix = f"    {number}: "
        assert line.startswith(prefix)
        assert json.loads(line.removeprefix(prefix)) == name.replace("\udcff", "?")


def test_a_thousand_classes_are_not_all_listed(make_network):
    card = model_card(make_network(classes=tuple(map(str, range(1000)))), "timm", "ann/pets")
    assert '    99: "99"\n    … and 900 more, in config.json\n' in card
    assert '"100"' not in card
