"""The table is checked against timm's words for ImageNet's classes, which know nothing of it."""

from importlib import import_module

from semppl.data.objectnet import OBJECTNET, objectnet_class_of

# ObjectNet's word → the first of ImageNet's words, where no word of the one is part of the other
OTHER_WORDS = {
    ("bicycle", "mountain bike"),
    ("butchers_knife", "cleaver"),
    ("dress", "gown"),
    ("dress_shoe_men", "Loafer"),
    ("jeans", "jean"),
    ("stuffed_animal", "teddy"),
    ("sweater", "sweatshirt"),
    ("tv", "television"),
    ("weight_exercise", "dumbbell"),
    ("winter_glove", "mitten"),
}
SEVERAL = {
    "alarm_clock": {"analog clock", "digital clock"},
    "bicycle": {"bicycle-built-for-two", "mountain bike"},
    "chair": {"barber chair", "folding chair", "rocking chair"},
    "helmet": {"crash helmet", "football helmet"},
    "pen": {"ballpoint", "quill", "fountain pen"},
    "skirt": {"hoopskirt", "miniskirt", "overskirt"},
    "still_camera": {"Polaroid camera", "reflex camera"},
    "tie": {"bow tie", "Windsor tie"},
    "wheel": {"car wheel", "paddlewheel"},
}


def words():
    return import_module("timm.data").ImageNetInfo().label_descriptions()


def first(description):
    return description.split(",")[0]


def test_113_classes_stand_for_125_of_imagenets_each_once():
    indices = [index for several in OBJECTNET.values() for index in several]
    assert len(OBJECTNET) == 113
    assert len(indices) == len(set(indices)) == 125
    assert list(OBJECTNET) == sorted(OBJECTNET)


def test_nine_classes_stand_for_several():
    described = words()
    found = {name: {first(described[i]) for i in several} for name, several in OBJECTNET.items()}
    assert {name: several for name, several in found.items() if len(several) > 1} == SEVERAL
    assert sum(map(len, SEVERAL.values())) == 125 - 113 + 9


def test_the_two_names_of_a_class_share_a_word_or_are_known_to_differ():
    described, different = words(), set()
    for name, several in OBJECTNET.items():
        for index in several:
            if not any(word in described[index].lower() for word in name.split("_") if len(word) > 2):
                different.add((name, first(described[index])))
    assert different == OTHER_WORDS


def test_the_way_back_from_imagenet():
    class_1000, names = objectnet_class_of(), list(OBJECTNET)
    assert class_1000.shape == (1000,)
    assert int((class_1000 >= 0).sum()) == 125
    assert sorted(set(class_1000.tolist())) == list(range(-1, 113))
    assert class_1000[0] == -1  # a tench is no object
    assert names[class_1000[409]] == names[class_1000[530]] == "alarm_clock"
    assert names[class_1000[909]] == "wok"
    for label, several in enumerate(OBJECTNET.values()):
        assert class_1000[list(several)].tolist() == [label] * len(several)
