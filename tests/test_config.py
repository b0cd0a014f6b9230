import pytest

from semppl.config import Config, OptimConfig, from_yaml, required, stored_config, to_yaml
from semppl.core.errors import UserError
from semppl.resolve import resolved


def test_yaml_and_back():
    config = resolved(Config(source="ünïcode path.npz", seed=3), image_size=32, num_images=1000)
    assert from_yaml(to_yaml(config)) == config


def test_a_key_that_nobody_reads_is_an_error():
    text = to_yaml(Config()).replace("alpha:", "alhpa:")
    with pytest.raises(UserError, match=r"unknown MethodConfig keys \['alhpa'\]"):
        from_yaml(text)
    with pytest.raises(UserError, match="not a YAML mapping"):
        from_yaml("- 1")
    with pytest.raises(UserError, match=r"^the configuration: DataConfig is 3: it must be a mapping"):
        from_yaml("data: 3")
    with pytest.raises(UserError, match=r"^run/config.yaml is no valid YAML"):
        from_yaml("a: [", "run/config.yaml")


def test_that_of_a_run_is_read_with_its_name(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(Config(source="ü", seed=5)), encoding="utf-8")
    assert stored_config(file) == from_yaml(file.read_text(encoding="utf-8"))
    file.write_text("data: 3")
    with pytest.raises(UserError, match=r"/config\.yaml: DataConfig is 3: it must be a mapping$"):
        stored_config(file)


def test_steps_and_rates():
    c = Config(epochs=300, batch_size=4096, optim=OptimConfig(base_lr=0.3))
    assert c.total_steps(1_281_167) == 93_835
    assert c.peak_lr == pytest.approx(4.8)
    assert Config(epochs=0.001, batch_size=8).total_steps(10) == 1
    assert [c.steps_of(epochs, 40_960) for epochs in (0.01, 5, 0)] == [1, 50, 0]
    with pytest.raises(ValueError, match="not resolved"):
        required(None)


def test_a_run_of_an_older_version_has_the_masks_of_its_file_and_no_others():
    text = to_yaml(Config(source="d"))
    assert from_yaml(text).data.masks is None
    older = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("  masks:"))
    assert older != text
    assert from_yaml(older).data.masks == "own"
