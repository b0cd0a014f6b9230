from semppl.report.table.flags import as_words, changed_flags, setting_words


def test_flags_that_are_not_as_usual():
    flags = {
        "protocol": ["knn", "linear"],
        "k": 5,
        "cache": False,
        "runs": ["/x"],
        "sets": [],
        "device": "cpu",
    }
    assert changed_flags(flags) == {"k": 5}
    assert changed_flags({"protocol": ["finetune"], "of a later version": 1}) == {"protocol": ["finetune"]}
    assert changed_flags({}) == {}


def test_words_of_a_command():
    assert as_words("method.minimum_votes", 3) == ["--method.minimum-votes", "3"]
    assert as_words("views.colour", False) == ["--views.no-colour"]
    assert as_words("consistency", True) == ["--consistency"]
    assert as_words("net.mean", [0.5, 0.25]) == ["--net.mean", "0.5", "0.25"]
    assert as_words("epochs", 100.0) == ["--epochs", "100"]
    assert as_words("method.alpha", 0.2) == ["--method.alpha", "0.2"]
    assert as_words("data.test", None) == ["--data.test", "None"]


def test_a_setting_that_may_be_left_open_takes_its_truth_as_a_value():
    assert setting_words("method.same_view", False) == ["--method.same-view", "False"]
    assert setting_words("method.divide_by_positives", False) == ["--method.no-divide-by-positives"]
    assert setting_words("data.labels_per_class", 4) == ["--labels-per-class", "4"]
    assert setting_words("data.split_seed", 4) == ["--data.split-seed", "4"]
    assert setting_words("method.target_decay", 0.99999996) == ["--method.target-decay", "0.99999996"]
