import json

import yaml

from semppl.report.table.portable import portable, without_folders


def test_no_path_of_a_machine():
    assert portable("/data/cifar.npz") == "cifar.npz"
    assert portable("/home/me/runs/a/checkpoints/last.ckpt") == "a/checkpoints/last.ckpt"
    assert portable("/checkpoints/last.ckpt") == "checkpoints/last.ckpt"
    same = ["CIFAR10", "data/x", "/", "", 3, None, ["/data/x"]]
    assert [portable(each) for each in same] == same


def test_a_file_is_else_as_it_was():
    text = 'a:   "/home/me/x.npz"\nb: [/home/me, 1.50]\nc: not /home/me/x.npz\n# said by hand\n'
    assert without_folders(text, yaml.safe_load) == (
        'a:   "x.npz"\nb: [me, 1.50]\nc: not x.npz\n# said by hand\n'
    )
    text = '{"runs": ["/r/a",  "/r/a/b"],\n "said": "in /r/a", "é": "/r/é"}'
    assert without_folders(text, json.loads, json.dumps) == (
        '{"runs": ["a",  "b"],\n "said": "in /r/a", "é": "/r/é"}'
    )


def test_a_damaged_file_stays():
    assert without_folders('{"a": "/x/y', json.loads, json.dumps) == '{"a": "/x/y'
    assert without_folders("[" * 100_000, json.loads, json.dumps) == "[" * 100_000
    assert without_folders("a: [/x/y", yaml.safe_load) == "a: [/x/y"
    assert without_folders("", yaml.safe_load) == ""
