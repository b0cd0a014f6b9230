from dataclasses import replace

import pytest

from semppl.choices import Facts, choose_network, choose_queue, choose_votes, epochs_for, told
from semppl.config import Config, DataConfig, MethodConfig, NetConfig, OptimConfig, ViewsConfig
from semppl.presets import fit
from semppl.resolve import resolved


def facts(**changes):
    values = {"image_size": 32, "num_images": 10_000, "num_labels": 200, "num_classes": 10, "gpu": True}
    return Facts(**{**values, "fitting": lambda size: size, **changes})


@pytest.mark.parametrize(
    ("size", "images", "gpu", "expected"),
    [
        (28, 60_000, True, ("resnet18", 1.0, "small", 28, 512)),
        (300, 1_000, True, ("resnet18", 1.0, "imagenet", 224, 64)),
        (300, 50_000, True, ("resnet50", 1.0, "imagenet", 224, 512)),
        (28, 60_000, False, ("resnet10", 0.25, "small", 28, 128)),
        (300, 500, False, ("resnet10", 0.5, "imagenet", 64, 32)),
    ],
)
def test_the_network_follows_size_number_and_device(size, images, gpu, expected):
    c = choose_network(fit(), facts(image_size=size, num_images=images, gpu=gpu))
    chosen = (c.net.encoder, c.net.width, c.net.stem, c.views.large_size, c.batch_size)
    assert chosen == expected


def test_what_the_user_wrote_stays():
    given = Config(
        batch_size=48,
        views=ViewsConfig(large_size=40),
        net=NetConfig(encoder="resnet34", width=2.0, stem="imagenet", head_hidden=77),
        method=MethodConfig(queue_capacity=123),
        data=DataConfig(labelled_fraction=0.5),
        optim=OptimConfig(name="adamw", base_lr=0.1),
        epochs=3.0,
    )
    for gpu in (True, False):
        assert choose_queue(choose_network(given, facts(gpu=gpu)), facts()) == given


def test_a_zero_stays_for_others_to_refuse():
    given = Config(views=ViewsConfig(large_size=0), net=NetConfig(head_hidden=0))
    config = choose_network(replace(given, method=MethodConfig(queue_capacity=0)), facts())
    assert (config.views.large_size, config.net.head_hidden) == (0, 0)
    assert choose_queue(replace(config, epochs=1.0), facts()).method.queue_capacity == 0


def test_classes_are_shown_equally_often_where_some_have_few_labels():
    def balanced(imbalance, num_labels=200, **given):
        config = Config(batch_size=64, epochs=10.0, data=DataConfig(**given))
        there = facts(imbalance=imbalance, num_labels=num_labels)
        return choose_queue(config, there).data.balance_labels

    assert (balanced(3.0), balanced(20.0)) == (True, True)
    assert balanced(2.9) is None, "left open, which is no"
    assert balanced(20.0, num_labels=1250) is None, "an eighth of the images"
    assert balanced(1.0, balance_labels=True) is True
    assert balanced(20.0, balance_labels=False) is False


def test_adamw_peaks_at_the_same_rate_whatever_the_batch():
    for batch in (32, 128, 512):
        c = choose_network(Config(batch_size=batch), facts())
        assert c.optim.name == "adamw"
        assert c.optim.base_lr * batch / 256 == pytest.approx(0.002)
    assert choose_network(Config(batch_size=2048), facts()).optim == OptimConfig()
    sgd = OptimConfig(name="sgd")
    assert choose_network(Config(optim=sgd), facts()).optim == sgd


def test_tiny_images_are_not_cropped_to_spots():
    assert choose_network(fit(), facts(image_size=8)).views.min_area == 0.5
    assert choose_network(fit(), facts(image_size=28)).views.min_area is None
    given = Config(views=ViewsConfig(min_area=0.3))
    assert choose_network(given, facts(image_size=8)).views.min_area == 0.3


def test_a_named_model_of_timm_keeps_its_width_on_a_cpu():
    c = choose_network(Config(net=NetConfig(encoder="timm:resnet10t")), facts(gpu=False))
    assert (c.net.width, c.net.head_hidden) == (1.0, 4096)


def test_grey_images_need_no_changes_of_colour():
    assert choose_network(fit(), facts()).views.colour
    assert not choose_network(fit(), facts(grey=True)).views.colour


def queue(epochs=10.0, batch=100, **changes):
    c = choose_queue(Config(epochs=epochs, batch_size=batch), facts(**changes))
    return c.method.queue_capacity, c.data.labelled_fraction


def test_the_queue_holds_16_of_each_label_and_64_of_each_class():
    assert queue(num_labels=30)[0] == 640
    assert queue(num_labels=100)[0] == 1600
    assert queue(num_labels=10_000)[0] == 2000


def test_batches_get_labelled_images_where_the_queue_would_fill_too_late():
    # 1,000 steps of 100 images: 3.2 labelled ones in each fill 3,200 entries after 1,000 steps, not after 100
    assert queue(num_images=10_000, num_labels=200, num_classes=50) == (3200, 0.125)
    assert queue(num_images=10_000, num_labels=9_000, num_classes=50)[1] is None
    # 32 in each of 1,000 steps would be enough: 10 · 3,200 / (100 · 100,000)
    assert queue(epochs=1000.0, num_labels=20, num_classes=50)[1] == pytest.approx(0.01)
    assert queue(num_labels=10_000)[1] is None
    assert queue(num_labels=0, num_images=10)[1] is None


@pytest.mark.parametrize(
    ("views", "voting", "needed"),
    [(2, "all", 3), (1, "all", 1), (4, "all", 12), (3, "same", 3), (2, "one", 1)],
)
def test_three_of_four_ballots_make_a_pseudo_label(views, voting, needed):
    config = replace(
        fit(), views=replace(fit().views, large=views), method=replace(fit().method, voting=voting)
    )
    chosen = choose_votes(config)
    assert chosen == replace(config, method=replace(config.method, minimum_votes=needed))
    resolved(replace(chosen, epochs=1.0), image_size=32, num_images=100)  # no more than there are


@pytest.mark.parametrize("given", [{"minimum_votes": 0}, {"minimum_votes": 4}, {"vote_power": 2.0}])
def test_ballots_of_the_user_stay(given):
    config = replace(fit(), method=replace(fit().method, **given))
    assert choose_votes(config) == config
    assert resolved(replace(config, epochs=1.0), image_size=32, num_images=100).method.minimum_votes == (
        given.get("minimum_votes", 0)
    )


def test_epochs_fill_the_time():
    assert epochs_for(10, seconds_per_step=0.1, batch_size=100, num_images=10_000) == 60
    assert epochs_for(0.001, 0.1, 100, 10_000) == 0.1
    assert epochs_for(0.26, 0.1, 100, 10_000) == 1.5
    assert epochs_for(1e6, 0.1, 100, 10_000) == 1000


def test_the_choices_in_words():
    c = choose_queue(replace(choose_network(fit(), facts(gpu=False, grey=True)), epochs=7.0), facts())
    c = resolved(c, image_size=32, num_images=10_000, num_classes=10)
    mean, std = (0.25, 0.5, 0.75), (0.1, 0.2, 0.3)
    first, normalised, second = told(c, 12.3, mean, std)
    assert first == "encoder resnet10, 0.25 of its width, small stem; views 2 × 32 px, no changes of colour"
    assert second == "batch 128, 12% of it labelled, queue 2,560, adamw; 7 epochs, about 12 min"
    said = "mean 0.250 0.500 0.750, standard deviation 0.100 0.200 0.300"
    assert normalised == f"normalised by the images: {said}"
    asked = told(replace(c, method=replace(c.method, minimum_votes=3)), 12.3, mean, std)[2]
    assert ", queue 2,560, 3 of 4 ballots for a pseudo-label, adamw; " in asked
    even = replace(c, data=replace(c.data, balance_labels=True))
    assert told(even, 12.3, mean, std)[2].startswith(
        "batch 128, 12% of it labelled, classes equally often among its labels, queue 2,560"
    )
    borrowed = replace(c, net=replace(c.net, pretrained=True))
    assert told(borrowed, 1, mean, std)[1] == f"normalised by the weights: {said}"
    assert told(replace(c, views=replace(c.views, flip=0.0)), 0.5, mean, std)[0].endswith("no flips")
    assert told(c, 0.5, mean, std)[2].endswith("about 30 s")
    assert told(replace(c, epochs=1.0), 12.3, mean, std)[2].endswith("; 1 epoch, about 12 min")


def test_an_encoder_of_one_size_gets_it():
    one = replace(fit(), net=replace(fit().net, encoder="timm:mixer_b16_224"))
    assert choose_network(one, facts(fitting=lambda _: 224)).views.large_size == 224
    own = replace(one, views=replace(one.views, large_size=112))
    assert choose_network(own, facts(fitting=lambda _: 224)).views.large_size == 112, "the user's word counts"
