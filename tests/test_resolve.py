import pytest

from semppl.config import (
    Config,
    DataConfig,
    MethodConfig,
    NetConfig,
    OptimConfig,
    SaliencyConfig,
    ViewsConfig,
)
from semppl.core.errors import UserError
from semppl.resolve import resolved


@pytest.mark.parametrize(
    ("size", "images", "expected"),
    [
        (8, 1437, ("resnet18", "small", "small_images", 8, 4, 128, "adamw")),
        (32, 50_000, ("resnet18", "small", "small_images", 32, 16, 512, "adamw")),
        (500, 9_000, ("resnet50", "imagenet", "paper", 224, 96, 512, "adamw")),
        (64, 16, ("resnet18", "small", "small_images", 64, 32, 2, "adamw")),
    ],
)
def test_what_is_not_given_is_chosen_from_the_data(size, images, expected):
    c = resolved(Config(), image_size=size, num_images=images)
    got = (
        c.net.encoder, c.net.stem, c.views.recipe, c.views.large_size, c.views.small_size, c.batch_size,
        c.optim.name,
    )  # fmt: skip
    assert got == expected


def test_a_given_value_is_never_replaced():
    given = Config(
        batch_size=64,
        views=ViewsConfig(large_size=48, small_size=20, recipe="paper"),
        method=MethodConfig(queue_capacity=7, negatives=3, same_view=False, target_decay=0.5),
        optim=OptimConfig(name="sgd", base_lr=0.7, weight_decay=0.0, warmup_epochs=0.0),
    )
    c = resolved(given, image_size=32, num_images=1000)
    assert (c.views.large_size, c.views.small_size, c.views.recipe) == (48, 20, "paper")
    assert (c.method.queue_capacity, c.method.negatives) == (7, 3)
    assert (c.method.same_view, c.method.target_decay) == (False, 0.5)
    assert c.optim == given.optim
    assert resolved(c, image_size=32, num_images=1000) == c


@pytest.mark.parametrize(
    ("objective", "negatives", "same_view"),
    [("relicv2", 10, True), ("simclr", 63, False), ("byol", 0, False)],
)
def test_negatives_and_view_pairs_suit_the_objective(objective, negatives, same_view):
    c = resolved(
        Config(batch_size=64, method=MethodConfig(objective=objective)), image_size=8, num_images=100
    )
    assert (c.method.negatives, c.method.same_view, c.method.queue_capacity) == (negatives, same_view, 1280)


def test_target_and_scales_are_the_papers_only_in_long_runs():
    def method(steps):
        return resolved(Config(batch_size=10, epochs=float(steps)), image_size=8, num_images=10).method

    def decay(steps):
        return method(steps).target_decay

    assert decay(100_000) == decay(20_000) == pytest.approx(0.996)
    assert decay(4_000) == pytest.approx(0.98)
    assert decay(100) == pytest.approx(0.97)
    assert (method(20_000).contrast_scale, method(20_000).invariance_scale) == (0.3, 5.0)
    assert (method(19_999).contrast_scale, method(19_999).invariance_scale) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 101}, "larger than the data .100 images"),
        ({"batch_size": 1}, "--batch-size is 1: it must be at least 2"),
        ({"epochs": 0.0}, "--epochs is 0.0: it must be above 0 here"),
        ({"log_every": 0}, "--log-every"),
        ({"sheet_every": -1.0}, "--sheet-every"),
        ({"probe_every": -1.0}, "--probe-every is -1.0: it must be at least 0"),
        ({"checkpoint_every": -1.0}, "--checkpoint-every is -1.0: it must be at least 0"),
        ({"timeout": -1.0}, "--timeout is -1.0: it must be above 0"),
        ({"net": NetConfig(head_hidden=0)}, "--net.head-hidden is 0: it must be at least 1"),
        ({"net": NetConfig(norm_ranks=0)}, "--net.norm-ranks is 0: it must be at least 1"),
        ({"keep_checkpoints": 0}, "--keep-checkpoints"),
        ({"views": ViewsConfig(large=0)}, "--views.large is 0"),
        ({"views": ViewsConfig(small=-1)}, "--views.small"),
        ({"views": ViewsConfig(large_size=0)}, "--views.large-size"),
        ({"views": ViewsConfig(large=1, small=0), "method": MethodConfig(objective="byol")}, "at least 2"),
        ({"saliency": SaliencyConfig(probability=5.0)}, "--saliency.probability is 5.0: .* at most 1"),
        ({"method": MethodConfig(k=0)}, "--method.k"),
        ({"method": MethodConfig(positives=-1)}, "--method.positives"),
        ({"method": MethodConfig(alpha=-0.1)}, "--method.alpha"),
        ({"method": MethodConfig(temperature=0.0)}, "--method.temperature"),
        ({"method": MethodConfig(queue_capacity=0)}, "--method.queue-capacity"),
        ({"method": MethodConfig(negatives=-1)}, "--method.negatives"),
        ({"method": MethodConfig(negatives=20), "batch_size": 20}, "--method.negatives is 20: .* at most 19"),
        ({"method": MethodConfig(objective="byol", negatives=3)}, "--method.negatives is 3: .* at most 0"),
        (
            {"method": MethodConfig(minimum_votes=2, voting="one")},
            "--method.minimum-votes is 2: .* at most 1",
        ),
        ({"method": MethodConfig(target_decay=1.1)}, "--method.target-decay"),
        ({"method": MethodConfig(contrast_scale=-1.0)}, "--method.contrast-scale is -1.0"),
        ({"method": MethodConfig(invariance_scale=-1.0)}, "--method.invariance-scale is -1.0"),
        ({"method": MethodConfig(labels="oracle")}, "labels-per-class"),
        ({"optim": OptimConfig(base_lr=-1.0)}, "--optim.base-lr is -1.0: it must be above 0"),
        ({"optim": OptimConfig(warmup_epochs=-3.0)}, "--optim.warmup-epochs"),
        (
            {"optim": OptimConfig(momentum=1.0)},
            "--optim.momentum is 1.0: it must be at least 0 and below 1 h",
        ),
        ({"data": DataConfig(labelled_fraction=1.5)}, "--data.labelled-fraction"),
        ({"data": DataConfig(labels_per_class=0)}, "--labels-per-class"),
    ],
)
def test_what_cannot_work_is_refused(changes, words):
    with pytest.raises(UserError, match=words):
        resolved(Config(**changes), image_size=8, num_images=100)


@pytest.mark.parametrize("capacity", [20, None])
def test_a_ballot_of_the_whole_queue_knows_nothing_of_the_image(capacity):
    """By default it has twenty batches."""
    entries = capacity or 240

    def given(**method):
        return Config(batch_size=12, method=MethodConfig(queue_capacity=capacity, **method))

    for k in (entries, 1000):
        words = f"^--method.k is {k}, and the queue has {entries} entries: all would vote"
        with pytest.raises(UserError, match=words):
            resolved(given(k=k), image_size=8, num_images=100)
    assert resolved(given(k=entries - 1), image_size=8, num_images=100).method.k == entries - 1
    resolved(given(k=1000, positives=0), image_size=8, num_images=100)  # nobody votes
    resolved(Config(method=MethodConfig(queue_capacity=1)), image_size=8, num_images=100)


def test_a_single_image_is_not_enough():
    with pytest.raises(UserError, match="the data has 1 image: at least 2"):
        resolved(Config(), image_size=8, num_images=1)


def test_the_queue_has_room_for_every_class():
    def capacity(num_classes):
        config = Config(batch_size=16)
        return resolved(config, image_size=8, num_images=100, num_classes=num_classes).method.queue_capacity

    assert (capacity(5), capacity(100)) == (320, 6400)


def test_long_runs_write_about_five_hundred_lines_of_metrics():
    def lines(steps):
        return resolved(Config(batch_size=10, epochs=float(steps)), image_size=8, num_images=10).log_every

    assert [lines(steps) for steps in (5, 900, 5_000, 50_000, 1_000_000)] == [10, 10, 10, 100, 2000]
    assert resolved(Config(log_every=3), image_size=8, num_images=100).log_every == 3


def test_a_micro_batch_must_divide_the_batch():
    for size in (2, 8, 16):
        config = Config(batch_size=16, micro_batch=size)
        assert resolved(config, image_size=8, num_images=100).micro_batch == size
    with pytest.raises(UserError, match="--micro-batch 6 does not divide the batch of 16"):
        resolved(Config(batch_size=16, micro_batch=6), image_size=8, num_images=100)
    with pytest.raises(UserError, match=r"--micro-batch computes parts again.*use --speed graph"):
        resolved(Config(batch_size=16, micro_batch=8, speed="compile"), image_size=8, num_images=100)
    for size in (1, 32):
        with pytest.raises(UserError, match="--micro-batch is"):
            resolved(Config(batch_size=16, micro_batch=size), image_size=8, num_images=100)


def test_views_have_sizes_that_the_encoder_takes():
    c = resolved(Config(), image_size=40, num_images=100, fitting=lambda size: -(-size // 16) * 16)
    assert (c.views.large_size, c.views.small_size) == (48, 32)
    given = Config(views=ViewsConfig(large_size=40, small_size=20))
    c = resolved(given, image_size=64, num_images=100, fitting=lambda _: 224)
    assert (c.views.large_size, c.views.small_size) == (40, 20), "the user's word counts"


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (NetConfig(mean=(0.5, 0.5, 0.5)), "--net.mean and --net.std belong together"),
        (NetConfig(mean=(0.5,), std=(1.0, 1.0, 1.0)), "--net.mean has 1 number: there are 3 channels"),
        (NetConfig(mean=(0.5, 0.5, 0.5), std=(1.0, 0.0, 1.0)), "--net.std is 1 0 1: each must be above 0"),
    ],
)
def test_a_normalisation_that_cannot_be(net, words):
    with pytest.raises(UserError, match=words):
        resolved(Config(net=net), image_size=8, num_images=100)


def test_masks_that_nobody_has_named_are_none():
    assert resolved(Config(), image_size=8, num_images=20).data.masks == "none"
    given = Config(data=DataConfig(masks="/m"))
    assert resolved(given, image_size=8, num_images=20).data.masks == "/m"
