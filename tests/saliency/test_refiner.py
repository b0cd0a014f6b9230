import gc
from functools import partial
from math import exp
from shutil import copytree
from weakref import ref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from semppl.core.errors import UserError
from semppl.nets.encoder import create_encoder
from semppl.saliency import network, refiner
from semppl.saliency.cut import cut_part
from semppl.saliency.network import ENCODER, Segmenter
from semppl.saliency.refiner import ROUNDS, Refiner, f_loss, learn, train_refiner
from semppl.saliency.score import BETA2
from semppl.views.recipe import View

CPU = torch.device("cpu")
SIDE = 32
PLAIN = View(size=SIDE, min_area=0.35, jitter=0.0, grey=0.0)
"""Crops and flips, and nothing else."""
NO_COLOURS = torch.zeros(3), torch.ones(3)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    make_small(monkeypatch)


def make_small(patch):
    """A network with an eighth of the channels, and trainings of two steps."""
    patch.setattr(network, "create_encoder", partial(create_encoder, width=0.125))
    for name, value in {"LEAST_STEPS": 2, "EPOCHS": 0, "_BATCH": 4, "_CUT_TOGETHER": 4}.items():
        patch.setattr(refiner, name, value)


def ignore(*_):
    pass


def encoder_weights(seed=0):
    torch.manual_seed(seed)
    return create_encoder(ENCODER, width=0.125, last_scale=1.0).state_dict()


def noise(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=rng)


def discs(count, seed):
    """Bright discs in the dark, and where they are."""
    rng = torch.Generator().manual_seed(seed)
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    centre = SIDE * (0.3 + 0.4 * torch.rand(2, count, 1, 1, generator=rng))
    radius = SIDE * (0.16 + 0.12 * torch.rand(count, 1, 1, generator=rng))
    truth = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < radius**2
    grain = torch.randint(0, 40, (count, 3, SIDE, SIDE), generator=rng)
    return (50 + 120 * truth[:, None] + grain).to(torch.uint8), truth


def overlap(maps, truth):
    found = maps >= 0.5
    return ((found & truth).sum((-1, -2)) / (found | truth).sum((-1, -2))).mean().item()


class Pixels(nn.Module):
    """Says of each pixel what one channel of it says, more on the left than on the right."""

    def __init__(self, slope=0.0):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return x[:, :1] + self.slope * torch.arange(x.shape[-1])


def network_of(seed=0, maps=1):
    """With statistics as a trained one has them."""
    torch.manual_seed(seed)
    net = Segmenter(maps)
    for name, buffer in net.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return net


# the loss


def test_loss_of_a_hard_map_by_hand():
    said = torch.tensor([[[[1.0, 1.0], [1.0, 0.0]]]])
    wanted = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    precision, recall = 1 / 3, 1 / 2
    f = (1 + BETA2) * precision * recall / (BETA2 * precision + recall)
    assert f_loss(said, wanted).item() == pytest.approx(1 - f, abs=1e-5)


def test_loss_of_a_soft_map_by_hand():
    said = torch.tensor([[[[0.8, 0.5], [0.1, 0.0]]]])
    wanted = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
    precision, recall = 0.9 / 1.4, 0.9 / 2
    f = (1 + BETA2) * precision * recall / (BETA2 * precision + recall)
    assert f_loss(said, wanted).item() == pytest.approx(1 - f, abs=1e-5)


def test_a_perfect_map_costs_nothing_and_a_wrong_one_all():
    wanted = torch.zeros(3, 2, 8, 8)
    wanted[:, 0, :4], wanted[:, 1, :, :3] = 1, 1
    assert f_loss(wanted, wanted).item() == pytest.approx(0, abs=1e-6)
    assert f_loss(1 - wanted, wanted).item() == 1


def test_nothing_said_and_nothing_wanted_are_no_division_by_zero():
    nothing, something = torch.zeros(1, 1, 4, 4, requires_grad=True), torch.ones(1, 1, 4, 4)
    for said, wanted in (
        (nothing, something),
        (something * nothing.exp(), 0 * something),
        (nothing, nothing),
    ):
        loss = f_loss(said, wanted)
        loss.backward()
        assert loss.item() == 1
        assert nothing.grad.isfinite().all()


def test_one_output_is_held_against_every_target_in_the_mean():
    said, wanted = torch.rand(2, 1, 5, 5), (torch.rand(2, 3, 5, 5) < 0.5).float()
    one_by_one = [f_loss(said[i : i + 1], wanted[i : i + 1, k : k + 1]) for i in range(2) for k in range(3)]
    assert f_loss(said, wanted).item() == pytest.approx(sum(one_by_one).item() / 6, abs=1e-6)
    each = torch.rand(2, 3, 5, 5)
    pairs = [f_loss(each[:, k : k + 1], wanted[:, k : k + 1]) for k in range(3)]
    assert f_loss(each, wanted).item() == pytest.approx(sum(pairs).item() / 3, abs=1e-6)


# the batches


@pytest.mark.parametrize("step", range(4))
def test_views_and_targets_are_cut_alike(step):
    images = noise(5, 3, SIDE, SIDE)
    views, wanted = refiner._batch(images, images, PLAIN, 1, step, NO_COLOURS)
    assert views.shape == wanted.shape == (refiner._BATCH, 3, SIDE, SIDE)
    assert torch.equal(wanted, ((255 * views).round() > 127).float())
    assert 0.3 < wanted.mean() < 0.7


def test_colours_change_in_the_views_alone(monkeypatch):
    monkeypatch.setattr(refiner, "_BATCH", 16)
    images, targets = noise(5, 3, SIDE, SIDE), noise(5, 2, SIDE, SIDE, seed=1)
    plain, wanted = refiner._batch(images, targets, PLAIN, 1, 0, NO_COLOURS)
    coloured, same = refiner._batch(
        images, targets, View(size=SIDE, min_area=0.35, jitter=1.0), 1, 0, NO_COLOURS
    )
    assert torch.equal(wanted, same)
    assert all(not torch.equal(a, b) for a, b in zip(plain, coloured, strict=True))


def test_a_batch_depends_on_seed_and_step_and_shows_all_images(monkeypatch):
    monkeypatch.setattr(refiner, "_BATCH", 24)
    flat = torch.arange(3, dtype=torch.uint8)[:, None, None, None].expand(3, 3, SIDE, SIDE)
    seen = [refiner._batch(flat, flat, PLAIN, seed, step, NO_COLOURS)[0] for seed, step in [(0, 0), (0, 1)]]
    assert {round(255 * level) for level in seen[0][:, 0, 0, 0].tolist()} == {0, 1, 2}
    assert not torch.equal(*seen)
    draw = partial(refiner._batch, noise(2, 3, SIDE, SIDE), noise(2, 1, SIDE, SIDE), PLAIN)
    assert torch.equal(draw(0, 7, NO_COLOURS)[0], draw(0, 7, NO_COLOURS)[0])
    assert not torch.equal(draw(0, 7, NO_COLOURS)[0], draw(1, 7, NO_COLOURS)[0])


def test_each_step_cuts_and_colours_anew():
    image, target = noise(1, 3, SIDE, SIDE), noise(1, 1, SIDE, SIDE, seed=1)
    for view in (PLAIN, View(size=SIDE, min_area=1.0, crop=0.0, flip=0.0, jitter=1.0)):
        views = [refiner._batch(image, target, view, 0, step, NO_COLOURS)[0] for step in range(2)]
        assert not torch.equal(*views)


# the answers


def test_an_answer_by_hand():
    images = torch.zeros(1, 3, 1, 2, dtype=torch.uint8)
    images[0, 0, 0] = torch.tensor([0, 255])
    left, right = (1 / (1 + exp(-(level - 0.485) / 0.229)) for level in (0, 1))
    assert Refiner(Pixels(), 2, CPU)(images)[0, 0].tolist() == pytest.approx([left, right], abs=1e-5)


@torch.no_grad()
def test_a_mirrored_image_has_the_mirrored_answer():
    images, net = noise(3, 3, SIDE, SIDE), network_of()
    refine = Refiner(net, SIDE, CPU)
    maps = refine(images)
    assert maps.shape == (3, SIDE, SIDE)
    assert 0 <= maps.min() < maps.max() <= 1
    assert torch.equal(refine(images.flip(3)), maps.flip(2))
    x = images.float() / 255
    assert not torch.allclose(net(x.flip(3)), net(x).flip(3), atol=1e-3)
    slope = Refiner(Pixels(slope=5.0), 4, CPU)(torch.full((1, 3, 4, 4), 128, dtype=torch.uint8))
    assert torch.allclose(slope, slope.flip(2))


def test_parts_answer_as_the_whole_does(monkeypatch):
    images = noise(5, 3, SIDE, SIDE)
    refine = Refiner(network_of().train(), SIDE, CPU)
    whole = refine(images)
    monkeypatch.setattr(refiner, "_TOGETHER", 2)
    assert torch.allclose(refine(images), whole, atol=1e-5)


def test_saved_and_loaded_it_answers_the_same(tmp_path):
    images, refine = noise(2, 3, SIDE, SIDE), Refiner(network_of(), SIDE, CPU)
    refine.save(tmp_path / "refiner.pt")
    again = Refiner.load(tmp_path / "refiner.pt", CPU)
    assert again.size == SIDE
    assert not again.net.training
    assert torch.equal(again(images), refine(images))
    saved = refine.net.state_dict()
    assert all(torch.equal(value, saved[name]) for name, value in again.net.state_dict().items())


@pytest.mark.parametrize(
    "kind", ["text", "empty", "cut off", "object", "list", "other", "net", "maps", "size"]
)
def test_a_foreign_or_damaged_file_is_refused(kind, tmp_path):
    path, weights = tmp_path / "refiner.pt", network_of().state_dict()
    contents = {
        "object": {"net": CPU, "size": View},
        "list": [weights, SIDE],
        "other": {"weights": weights},
        "net": {"net": encoder_weights(), "size": SIDE},
        "maps": {"net": network_of(maps=3).state_dict(), "size": SIDE},
        "size": {"net": weights, "size": "large"},
    }
    torch.save(contents.get(kind, {"net": weights, "size": SIDE}), path)
    whole = path.read_bytes()
    path.write_bytes({"text": b"no network", "empty": b"", "cut off": whole[:-100]}.get(kind, whole))
    with pytest.raises(UserError, match=r"refiner.pt: not a network of semppl masks: use --overwrite"):
        Refiner.load(path, CPU)


# one training


@pytest.mark.parametrize(("steps", "looks", "asked"), [(3, 3, [1, 2, 3]), (7, 3, [2, 4, 6]), (2, 10, [1, 2])])
def test_history_is_the_average_of_the_looks(steps, looks, asked, monkeypatch):
    done, asked_at = [], []

    def answer(net, images):
        assert net.training
        net.eval()
        asked_at.append(len(done) + 1)
        return torch.full((len(images), 2, SIDE, SIDE), asked_at[-1] / 16)

    monkeypatch.setattr(refiner, "_answer", answer)
    monkeypatch.setattr(refiner, "_LOOKS", looks)
    _, history = learn(
        noise(3, 3, SIDE, SIDE),
        noise(3, 2, SIDE, SIDE),
        encoder_weights(),
        num_maps=2,
        seed=0,
        advance=lambda step, total: done.append((step, total)),
        steps=steps,
    )
    assert done == [(step + 1, steps) for step in range(steps)]
    assert asked_at == asked
    weights = [refiner._MEMORY ** (len(asked) - 1 - i) for i in range(len(asked))]
    average = sum(w * t / 16 for w, t in zip(weights, asked, strict=True)) / sum(weights)
    assert history.dtype == torch.uint8
    assert history.shape == (3, 2, SIDE, SIDE)
    assert (history == round(255 * average)).all()


def test_history_holds_each_image_in_its_place(monkeypatch):
    monkeypatch.setattr(refiner, "_answer", lambda _, images: images[:, :1].float() / 255)
    monkeypatch.setattr(refiner, "_TOGETHER", 2)
    images = noise(5, 3, SIDE, SIDE)
    _, history = learn(
        images, noise(5, 1, SIDE, SIDE), encoder_weights(), num_maps=1, seed=0, advance=ignore, steps=2
    )
    assert torch.equal(history, images[:, :1])


class Made(TorchDispatchMode):
    """Counts results of a shape that take memory of their own."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.count = shape, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        own = not function.is_view and not function._schema.is_mutable
        self.count += own and isinstance(made, torch.Tensor) and made.shape == self.shape
        return made


def test_history_is_held_once_however_often_the_network_is_asked(monkeypatch):
    monkeypatch.setattr(refiner, "_TOGETHER", 3)
    images, targets, start = noise(7, 3, SIDE, SIDE), noise(7, 2, SIDE, SIDE), encoder_weights()
    with Made(targets.shape) as made:
        learn(images, targets, start, num_maps=2, seed=0, advance=ignore, steps=4)
    assert made.count == 2  # as numbers, and at last as levels


def test_so_many_steps_that_each_image_is_seen_often_enough(monkeypatch):
    told = []
    monkeypatch.setattr(refiner, "EPOCHS", 4)
    for count in (1, 5):
        train = partial(learn, noise(count, 3, SIDE, SIDE), noise(count, 1, SIDE, SIDE), encoder_weights())
        train(num_maps=1, seed=0, advance=lambda *words: told.append(words))
    assert [total for done, total in told if done == total] == [2, 5]


def test_noisy_targets_teach_more_than_they_say(monkeypatch):
    monkeypatch.setattr(refiner, "_BATCH", 12)
    monkeypatch.setattr(refiner, "_LR", 0.01)
    monkeypatch.setattr(refiner, "_WARMUP", 5)
    losses = []
    monkeypatch.setattr(refiner, "f_loss", lambda *maps: losses.append(f_loss(*maps)) or losses[-1])
    images, truth = discs(24, seed=0)
    wrong = torch.rand(24, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1)) < 0.15
    targets = truth[:, None] ^ wrong
    net, history = learn(
        images,
        255 * targets.to(torch.uint8),
        encoder_weights(),
        num_maps=1,
        seed=0,
        advance=ignore,
        steps=30,
    )
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert overlap(targets.float(), truth[:, None]) < 0.5
    others, where = discs(12, seed=2)
    assert overlap(Refiner(net, SIDE, CPU)(others), where) > 0.7
    assert overlap(history / 255, truth[:, None]) > 0.7


def test_the_seed_alone_decides_a_training():
    def weights(seed, elsewhere):
        start = encoder_weights()
        torch.manual_seed(elsewhere)
        train = partial(learn, noise(3, 3, SIDE, SIDE), noise(3, 1, SIDE, SIDE), start)
        net, _ = train(num_maps=1, seed=seed, advance=ignore)
        assert torch.initial_seed() == elsewhere
        return net.state_dict()

    once, again, other = weights(0, 1), weights(0, 2), weights(1, 1)
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not torch.equal(once["last.weight"], other["last.weight"])


def test_a_training_starts_from_the_given_encoder(monkeypatch):
    monkeypatch.setattr(refiner, "_LR", 0.0)
    start = encoder_weights(7)
    net, _ = learn(
        noise(2, 3, SIDE, SIDE), noise(2, 1, SIDE, SIDE), start, num_maps=1, seed=0, advance=ignore
    )
    assert equal(dict(net.encoder.named_parameters()), start)


# all of it


class Trainings:
    """Counts what is done, and ends before one of the trainings where told."""

    def __init__(self, monkeypatch):
        self.started, self.learnt, self.end_before = 0, [], None
        monkeypatch.setattr(refiner, "started_encoder", self._start)
        monkeypatch.setattr(refiner, "learn", self._learn)

    def _start(self, pool, *, device, seed, advance):
        self.started += 1
        advance(1, 1)
        return encoder_weights(seed)

    def _learn(self, images, targets, encoder, *, num_maps, seed, advance):
        if len(self.learnt) == self.end_before:
            raise KeyboardInterrupt
        net, history = learn(images, targets, encoder, num_maps=num_maps, seed=seed, advance=advance)
        self.learnt.append((targets, encoder, num_maps, seed, history))
        return net, history


@pytest.fixture
def trainings(monkeypatch):
    return Trainings(monkeypatch)


def refined(place, seed=3, images=None, maps=None, pool=None, advance=ignore):
    images = noise(5, 3, SIDE, SIDE, seed=1) if images is None else images
    maps = noise(5, 2, SIDE, SIDE, seed=2) if maps is None else maps
    pool = images if pool is None else pool
    made = train_refiner(images, maps, pool, device=CPU, seed=seed, place=place, spread=map, advance=advance)
    return made.net.state_dict()


def equal(some, others):
    return all(torch.equal(some[name], others[name]) for name in some)


def test_a_round_learns_from_the_sources_and_from_what_the_one_before_said(tmp_path, trainings):
    images, maps = noise(5, 3, SIDE, SIDE, seed=1), noise(5, 2, SIDE, SIDE, seed=2)
    told = []
    refined(tmp_path / "new" / "place", images=images, maps=maps, advance=lambda *words: told.append(words))
    fused = ((maps[:, :1].float() + maps[:, 1:].float()) / 2).round().to(torch.uint8)
    sources = torch.cat([maps, fused], 1)
    wanted, pixels = sources, images.permute(0, 2, 3, 1).numpy()
    assert len(trainings.learnt) == ROUNDS + 1
    for number, (targets, encoder, num_maps, _, history) in enumerate(trainings.learnt):
        assert torch.equal(targets, torch.from_numpy(cut_part((pixels, wanted.numpy()))))
        assert equal(encoder, encoder_weights(3))
        assert num_maps == (1 if number == ROUNDS else 3)
        wanted = ((sources.float() + history.float()) / 2).floor().to(torch.uint8)
    assert len({seed for _, _, _, seed, _ in trainings.learnt}) == ROUNDS + 1
    assert [words[1:] for words in told if "cutting" in words[0]] == [(4, 5), (5, 5)] * (ROUNDS + 1)
    # the start, the cutting, and each training have a title of their own, and reach their end
    assert len({title for title, _, _ in told}) == ROUNDS + 3
    assert len({title for title, done, total in told if done == total}) == ROUNDS + 3


def test_the_first_training_is_out_of_memory_when_the_next_begins(tmp_path, trainings, monkeypatch):
    class Holding:
        """As a recording is: only a collection ends it."""

        def __init__(self):
            self.itself = self

    held, found = [], []

    def start(*_, **__):
        held.append(ref(Holding()))
        assert held[0]() is not None
        return encoder_weights()

    def looked(*given, **options):
        found.append(held[0]())
        return learn(*given, **options)

    monkeypatch.setattr(refiner, "started_encoder", start)
    monkeypatch.setattr(refiner, "learn", looked)
    gc.disable()
    try:
        refined(tmp_path)
    finally:
        gc.enable()
    assert found == [None] * (ROUNDS + 1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a training without a break, and its weights."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        Trainings(patch)
        place = tmp_path_factory.mktemp("whole")
        return place, refined(place)


@pytest.fixture
def place(whole, tmp_path):
    """A copy of that folder."""
    return copytree(whole[0], tmp_path / "place")


def test_what_is_done_is_not_done_again(whole, place, trainings):
    assert sorted(path.name for path in place.iterdir()) == [
        *(f"round-{number + 1}.pt" for number in range(ROUNDS)),
        "start.pt",
    ]
    assert equal(refined(place), whole[1])
    assert (trainings.started, len(trainings.learnt)) == (0, 1)


@pytest.mark.parametrize("end_before", range(ROUNDS + 1))
def test_an_interrupted_training_ends_as_one_without_a_break(end_before, whole, tmp_path, trainings):
    trainings.end_before = end_before
    with pytest.raises(KeyboardInterrupt):
        refined(tmp_path)
    trainings.end_before = None
    assert equal(refined(tmp_path), whole[1])
    assert (trainings.started, len(trainings.learnt)) == (1, ROUNDS + 1)


@pytest.mark.parametrize("kind", ["text", "empty", "cut off", "other"])
@pytest.mark.parametrize("name", ["start.pt", "round-1.pt"])
def test_a_damaged_stage_is_made_again(kind, name, whole, place, trainings):
    kept = (place / name).read_bytes()
    if kind == "other":
        torch.save({"weights": torch.zeros(3)}, place / name)
    else:
        (place / name).write_bytes({"text": b"no network", "empty": b"", "cut off": kept[:-100]}[kind])
    assert equal(refined(place), whole[1])
    assert (trainings.started, len(trainings.learnt)) == ((1, 1) if name == "start.pt" else (0, 2))
    assert equal(
        torch.load(place / name, weights_only=True)["made"],
        torch.load(whole[0] / name, weights_only=True)["made"],
    )


@pytest.mark.parametrize("changed", ["images", "maps", "seed", "fewer", "pool"])
def test_stages_of_other_images_maps_or_seeds_are_not_taken(changed, place, trainings):
    other = {
        "images": {"images": noise(5, 3, SIDE, SIDE, seed=8)},
        "maps": {"maps": noise(5, 2, SIDE, SIDE, seed=8)},
        "seed": {"seed": 8},
        "fewer": {"images": noise(3, 3, SIDE, SIDE, seed=1), "maps": noise(3, 2, SIDE, SIDE, seed=2)},
        "pool": {"pool": noise(7, 3, SIDE, SIDE, seed=8)},
    }[changed]
    refined(place, **other)
    assert (trainings.started, len(trainings.learnt)) == (1, ROUNDS + 1)
