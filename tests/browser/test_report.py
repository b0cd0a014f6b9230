"""The page in a browser: what it shows, how it is used, what it does not do."""

import json
import re

import pytest
from tests.browser.conftest import made
from tests.report.conftest import (
    BALLOTS,
    EVIL_CLASS,
    EVIL_FILE,
    bare_run,
    measured_run,
    whole_run,
    write_advice,
    write_exhibit,
)

PHONE = {"width": 360, "is_mobile": True, "has_touch": True}
# width of A4 between the margins of the page, in CSS pixels
PAPER = round((210 - 24) / 25.4 * 96)


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    return whole_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def file(run_path):
    return made([run_path], run_path / "report.html")


@pytest.fixture(scope="module")
def content(run_path):
    return json.loads((run_path / "exhibit" / "exhibit.json").read_text())


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    runs = [
        measured_run(folder / f"{name}{seed}", value + seed, seed=seed, method__k=k)
        for name, value, k in (("a <b>", 80.0, 1), ("b", 84.0, 5))
        for seed in (0, 1, 2)
    ]
    return made([*runs, bare_run(folder / "new")], folder / "several.html")


def cards(page):
    return page.locator("#cards > li")


def map_point(page, n):
    """Where a point of the map is on the screen."""
    page.locator("#map-plot").scroll_into_view_if_needed()
    box = page.locator("#map-plot .scatterlayer .trace").first.locator("path.point").nth(n).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_all_parts_are_drawn(file, opened):
    with opened(file) as page:
        assert page.locator(".js-plotly-plot .main-svg").count() > 8
        assert page.inner_text(".headline .value") == "88.0 %"
        assert page.locator("#missing").count() == 0
        drawn = page.locator("#map-plot .scatterlayer .trace").first.locator("path.point")
        assert drawn.count() == 60


def test_names_stay_text(file, opened):
    with opened(file) as page:
        first = cards(page).first
        assert first.locator(".name").first.inner_text() == EVIL_FILE
        assert first.locator(".voted").inner_text() == EVIL_CLASS
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 3
        assert page.locator("b", has_text="fox").count() == 0
        ticks = page.locator("#confusion-0 .ytick text").all_text_contents()
        assert ticks[0] == EVIL_CLASS[:15] + "…"
        assert ticks[2].replace("\xa0", " ") == "owl & <b>fox</b>"
        assert EVIL_FILE in page.inner_text("#advice")
        assert "caf\\xe9.jpg" in page.inner_text("#cards")
        assert page.locator("#by-class option").all_inner_texts()[1] == EVIL_CLASS


def test_filters(file, content, opened):
    sample, gallery = content["sample"], content["gallery"]

    def expected(fits):
        return sum(fits(card["of"]) for card in gallery)

    with opened(file) as page:
        assert page.inner_text("#shown") == "24 of 30 images shown; 30 in the gallery"
        page.click("#more")
        assert cards(page).count() == 30
        page.select_option("#by-right", "wrong")
        assert cards(page).count() == expected(lambda n: sample["right"][n] == 0) > 0
        page.select_option("#by-agreement", "unanimous")
        both = expected(lambda n: sample["right"][n] == 0 and sample["votes"][n] == BALLOTS)
        assert cards(page).count() == both
        page.select_option("#by-right", "all")
        page.select_option("#by-agreement", "tied")
        assert cards(page).count() == expected(lambda n: sample["tied"][n])
        page.select_option("#by-agreement", "all")
        page.select_option("#by-class", "1")
        assert cards(page).count() == expected(lambda n: sample["vote"][n] == 1)
        page.select_option("#by-class", "all")
        page.fill("#by-name", "ONERROR")
        assert cards(page).count() == 1
        assert page.inner_text("#shown") == "1 of 1 image shown; 30 in the gallery"
        page.fill("#by-name", "nothing has this name")
        assert cards(page).count() == 0


def test_a_card_shows_the_ballots_the_voters_and_the_positives(file, content, opened):
    card = content["gallery"][0]
    with opened(file) as page:
        first = cards(page).first
        assert f"{BALLOTS} of {BALLOTS} ballots" in first.inner_text()
        voters = {voters[0][0] for voters in card["voters"]}
        rows = first.locator(".row")
        assert rows.first.locator(".tile").count() == len(voters)
        assert rows.last.locator(".tile").count() == len(card["positives"]) == 3
        name = content["images"]["name"][card["positives"][0]]
        assert rows.last.locator(".tile").first.get_attribute("aria-label").startswith(name)
        place = first.locator(".tile").first.evaluate("e => getComputedStyle(e).backgroundPosition")
        assert place == f"{round(100 * 12 / 31, 3)}% 0%", "tile 12 of 32 columns"
        assert (
            first.locator(".tile")
            .first.evaluate("e => getComputedStyle(e).backgroundImage")
            .startswith('url("data:')
        )


def test_the_gallery_by_keyboard(file, opened):
    with opened(file) as page:
        cards(page).first.focus()
        page.keyboard.press("ArrowRight")
        active = "document.activeElement"
        assert page.evaluate(f"[...document.getElementById('cards').children].indexOf({active})") == 1
        page.keyboard.press("ArrowDown")
        assert page.evaluate(f"[...document.getElementById('cards').children].indexOf({active})") == 4
        page.keyboard.press("End")
        assert page.evaluate(f"[...document.getElementById('cards').children].indexOf({active})") == 23
        assert page.evaluate("document.querySelectorAll('#cards > li[tabindex=\"0\"]').length") == 1


def test_a_point_of_the_map_shows_its_image(file, content, opened):
    with opened(file) as page:
        for n in (0, 7):
            page.mouse.move(*map_point(page, n))
            name = content["images"]["name"][content["sample"]["image"][n]]
            page.wait_for_function(
                "name => document.querySelector('#map-card .name')?.textContent === name", arg=name
            )
            assert page.locator("#map-card .tile").count() == 1
        assert content["classes"][content["sample"]["vote"][7]] in page.inner_text("#map-card")


def test_the_map_by_keyboard(file, content, opened):
    order = sorted(range(60), key=lambda n: content["sample"]["x"][n])
    names = [content["images"]["name"][content["sample"]["image"][n]] for n in order]
    with opened(file) as page:
        page.focus("#map-plot")
        for name in names[:3]:
            page.keyboard.press("ArrowRight")
            assert page.inner_text("#map-card .name") == name
        page.keyboard.press("ArrowLeft")
        assert page.inner_text("#map-card .name") == names[1]
        page.keyboard.press("End")
        assert page.inner_text("#map-card .name") == names[-1]
        page.select_option("#map-class", "1")
        shown = [n for n in order if content["sample"]["vote"][n] == 1]
        page.focus("#map-plot")
        page.keyboard.press("Home")
        first = content["images"]["name"][content["sample"]["image"][shown[0]]]
        assert page.inner_text("#map-card .name") == first


def test_the_colours_of_the_map(file, opened):
    with opened(file) as page:
        assert EVIL_CLASS in page.inner_text("#map-legend")
        for way, words in (("right", "not known"), ("votes", "of the ballots"), ("label", "none (60)")):
            page.select_option("#map-colour", way)
            assert words in page.inner_text("#map-legend")


def test_a_cell_of_the_confusion_matrix_says_what_it_counts(file, opened):
    with opened(file) as page:
        page.locator("#confusion-0").scroll_into_view_if_needed()
        box = page.locator("#confusion-0 .heatmaplayer image, #confusion-0 .hm image").first.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 6, box["y"] + 5 * box["height"] / 6)
        page.wait_for_function(
            "document.querySelector('[data-readout=\"confusion-0\"]').textContent.includes('→')"
        )
        said = page.inner_text('[data-readout="confusion-0"]')
        assert said == f"owl & <b>fox</b> → {EVIL_CLASS}: 2 of 10 shown images"


def test_classes_can_be_sorted(file, opened):
    with opened(file) as page:
        table = page.locator("table.sortable").first
        button = table.locator("thead button", has_text="accuracy")
        button.click()
        assert table.locator("thead th[aria-sort=ascending]").inner_text().startswith("accuracy")
        assert table.locator("tbody tr").last.locator("td").nth(2).inner_text() == "90.0 %"
        button.click()
        assert table.locator("tbody tr").first.locator("td").nth(2).inner_text() == "90.0 %"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_that_of_the_system_and_can_be_changed(file, opened, scheme):
    def ink(page):
        text = page.locator("#loss .xtitle").first.evaluate("e => getComputedStyle(e).fill")
        return sum(map(int, re.findall(r"\d+", text)[:3])), page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )

    with opened(file, color_scheme=scheme) as page:
        before, paper = ink(page)
        page.click("#theme")
        page.wait_for_timeout(200)
        after, other = ink(page)
        assert (before < after) == (scheme == "light"), "light letters on dark"
        assert paper != other


@pytest.mark.parametrize("which", ["file", "several"])
def test_a_phone_scrolls_in_one_direction(which, request, opened):
    with opened(request.getfixturevalue(which), **PHONE) as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        page.wait_for_timeout(500)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        wide = (
            "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, svg, .js-plotly-plot')"
        )
        assert (
            page.evaluate(
                f"{wide} && e.getBoundingClientRect().right > 361).map(e => e.outerHTML.slice(0, 80))"
            )
            == []
        )


def test_a_touch_shows_the_image_of_a_point(file, content, opened):
    with opened(file, **PHONE) as page:
        page.touchscreen.tap(*map_point(page, 5))
        name = content["images"]["name"][content["sample"]["image"][5]]
        page.wait_for_function(
            "name => document.querySelector('#map-card .name')?.textContent === name", arg=name
        )


@pytest.mark.parametrize("which", ["file", "several"])
def test_nothing_is_cut_on_paper(which, request, opened):
    with opened(request.getfixturevalue(which), width=PAPER, color_scheme="dark") as page:
        page.emulate_media(media="print")
        page.wait_for_timeout(500)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        cut = page.evaluate(
            """limit => [...document.querySelectorAll('table, .chart, .cards > li, .main-svg')]
            .filter(e => e.getClientRects().length)
            .filter(e => e.getBoundingClientRect().right > limit + 1 || e.getBoundingClientRect().left < -1)
            .map(e => e.outerHTML.slice(0, 120))""",
            PAPER,
        )
        assert cut == []
        overflow = "[...document.querySelectorAll('.scroll')].map(e => getComputedStyle(e).overflowX)"
        assert set(page.evaluate(overflow)) == {"visible"}
        heads = "[...document.querySelectorAll('thead')].map(e => getComputedStyle(e).display)"
        assert set(page.evaluate(heads)) == {"table-header-group"}
        closed = "[...document.querySelectorAll('details.group table, #record .pairs')]"
        assert all(page.evaluate(f"{closed}.map(e => e.getBoundingClientRect().height > 0)"))
        paper = page.pdf(prefer_css_page_size=True)
        assert paper.startswith(b"%PDF")
        assert 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 12


def test_a_table_of_many_columns_fits_the_paper(tmp_path, opened):
    runs = [measured_run(tmp_path / f"configuration-{k}", 80.0 + k, method__k=k) for k in range(14)]
    with opened(made(runs, tmp_path / "wide.html"), width=PAPER) as page:
        page.emulate_media(media="print")
        right = page.evaluate(
            "Math.max(...[...document.querySelectorAll('table')].map(e => e.getBoundingClientRect().right))"
        )
        assert right <= PAPER + 1


def test_several_runs(several, opened):
    with opened(several) as page:
        assert page.locator("#differences .scatterlayer .point").count() > 2
        assert "81.0 ± 1.0 (3)" in page.inner_text("#results")
        assert "No results yet: new." in page.inner_text("#results")
        assert "a <b>0" in page.inner_text("#runs")
        assert page.locator("#all-loss .legendtext").all_text_contents() == [
            "k 1, source photos (abababa…",
            "k 5, source photos (abababa…",
        ]


def test_several_runs_of_one_configuration_are_told_apart(tmp_path, opened):
    names = ("a <b>0", "a%{x}1")
    runs = [measured_run(tmp_path / name, 80.0 + seed, seed=seed) for seed, name in enumerate(names)]
    with opened(made(runs, tmp_path / "seeds.html")) as page:
        assert page.locator("#all-loss .legendtext").all_text_contents() == list(names)


@pytest.mark.parametrize(
    "damage", ["nothing yet", "cut", "no exhibit", "damaged exhibit", "damaged sheet", "no queue"]
)
def test_a_run_with_pieces_missing(tmp_path, opened, damage):
    path = bare_run(tmp_path / "run") if damage == "nothing yet" else whole_run(tmp_path / "run")
    if damage == "cut":
        text = (path / "metrics.jsonl").read_text()
        (path / "metrics.jsonl").write_text(text[: len(text) // 2])
    elif damage == "no exhibit":
        (path / "exhibit" / "exhibit.json").unlink()
    elif damage == "damaged exhibit":
        (path / "exhibit" / "exhibit.json").write_text('{"version": 1, "images":')
    elif damage == "damaged sheet":
        (path / "exhibit" / "tiles-0.webp").write_bytes(b"RIFF")
    elif damage == "no queue":
        write_exhibit(path, queue=False)
        write_advice(path)
    with opened(made([path], path / "report.html")) as page:
        if damage == "no queue":
            assert "no queue" in page.inner_text("#gallery")
            assert page.locator("#map-plot .scatterlayer .point").count() >= 60
        else:
            assert page.locator("#missing code").count() + (damage == "cut") >= 1
            assert "semppl" in page.inner_text("#missing")


def test_without_scripts_tables_are_there(file, browser):
    around = browser.new_context(java_script_enabled=False)
    page = around.new_page()
    page.goto(file.as_uri())
    assert "Scripts are off" in page.inner_text("main")
    assert page.locator("#results table").count() == 3
    around.close()


def test_a_large_run_is_quick_and_below_25_mb(tmp_path, opened):
    """As from 50,000 images: 2,000 points, 5,000 thumbnails that compress badly, 200 cards."""
    path = whole_run(tmp_path / "run", labelled=3000, sampled=2000, gallery=200, noise=True)
    sheets = sum(sheet.stat().st_size for sheet in (path / "exhibit").glob("tiles-*.webp"))
    assert sheets > 10_000_000, "too much as it is"
    large = made([path], path / "report.html")
    assert large.stat().st_size < 25_000_000
    with opened(large) as page:
        assert page.locator("#map-plot .scatterlayer .trace").first.locator("path.point").count() == 2000
        page.mouse.move(*map_point(page, 1500))
        page.wait_for_selector("#map-card .name")
        page.select_option("#by-right", "right")
        assert cards(page).count() == 24
