"""The page in a real browser: by keyboard, on a phone, light and dark, with nothing from elsewhere."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from bertvision.packs.export import export_pack
from bertvision.server.jobs import Job
from bertvision.server.service import PackService
from tiny_server import CONTEXT, QUESTION, app_with, listening, make_packs

CHROMIUM = Path("/usr/bin/chromium")
Browser: TypeAlias = Any  # what playwright gives, which may not be there
Page: TypeAlias = Any
Open: TypeAlias = Callable[..., Page]

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")

pytestmark = [
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(not CHROMIUM.is_file(), reason=f"needs the browser {CHROMIUM}"),
]

SIZES = {"phone": (390, 844), "dispatcher": (1280, 900)}
HOSTILE = 'a <img src=x onerror="document.title=1"> \U0001f600 gold b'


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> PackService:
    packs = make_packs(tmp_path_factory.mktemp("packs"))
    return PackService([packs["squad2"], packs["silent"]], device="cpu")


@pytest.fixture(scope="module")
def address(service: PackService) -> Iterator[str]:
    with listening(app_with(service)) as found:
        yield found


def answer_to(service: PackService, question: str, context: str) -> dict[str, Any]:
    """What the page should show."""
    (reply,) = service.run([Job(pack=0, text=question, pair=context, top=5)])
    return reply


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def open_page(address: str, browser: Browser) -> Iterator[Open]:
    """Opens the page at a size; what the console and the network complain of must be nothing in the end."""
    trouble: list[str] = []
    contexts: list[Browser] = []

    def note(request: Page) -> None:
        if not request.url.startswith(address):
            trouble.append(f"request to {request.url}")

    def opened(size: str = "dispatcher", scheme: str = "light") -> Page:
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", note)
        page.goto(address)
        page.wait_for_selector("#examples button")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []


def ask(page: Page, text: str, question: str) -> None:
    page.fill("#text", text)
    page.fill("#question", question)
    page.press("#question", "Enter")
    page.wait_for_selector("#said:not([hidden])")
    page.wait_for_selector("#ask:not([aria-busy])")


def open_layers(page: Page) -> None:
    page.locator("#depth summary").click()
    page.wait_for_selector("#layers .chart, #layers-problem:not([hidden]):not(:text('Computing'))")


def test_a_question_is_asked_by_keyboard_alone(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "question"
    page.keyboard.type(QUESTION)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.type(CONTEXT)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#said:not([hidden])")
    answer = page.inner_text("#answer")
    assert answer in CONTEXT
    assert page.inner_text("#found") == answer
    assert page.inner_text("#place") == CONTEXT


def test_runners_up_heads_and_layers_are_shown(open_page: Open, service: PackService) -> None:
    page = open_page()
    ask(page, CONTEXT, QUESTION)
    said = answer_to(service, QUESTION, CONTEXT)
    assert page.inner_text("#answer") == said["answer"]
    assert page.locator("#runners .what").all_inner_texts() == [one["answer"] for one in said["alternatives"]]
    assert f"{100 * said['score']:.0f}" in page.inner_text("#score")
    assert "%" in page.inner_text("#none")
    heads = page.locator("#heads h3").all_inner_texts()
    assert heads == ["squad2 · layer_mix", "squad2 · last_layer", "squad2-2 · layer_mix"]
    assert page.locator("#heads .silent").count() == 1
    assert page.locator("#layers .chart").count() == 0
    open_layers(page)
    assert page.locator("#layers .chart").count() == 2
    assert page.locator("#layers .bar").count() == 6
    assert "layer 2: 100" in page.locator("#layers .bars").nth(1).get_attribute("aria-label")
    runner = page.locator("#runners button").first
    runner.focus()
    page.keyboard.press("Enter")
    assert runner.get_attribute("aria-pressed") == "true"
    assert page.inner_text("#found") == said["alternatives"][0]["answer"]
    page.keyboard.press("Enter")
    assert page.inner_text("#found") == said["answer"]


def test_layers_are_asked_for_only_while_their_panel_is_open(open_page: Open) -> None:
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    ask(page, CONTEXT, QUESTION)
    page.wait_for_timeout(200)
    assert "layers" not in asked
    open_layers(page)
    ask(page, CONTEXT, f"{QUESTION} ?")
    page.wait_for_selector("#layers .chart")
    page.locator("#depth summary").click()
    ask(page, CONTEXT, QUESTION)
    assert asked.count("layers") == 2
    with page.expect_request("**/v1/layers"):  # the charts of before are there until it is sent
        open_layers(page)
    assert asked.count("layers") == 3


def test_no_answer_is_said(open_page: Open) -> None:
    page = open_page(scheme="dark")
    page.select_option("#pack", "squad2-2")
    ask(page, CONTEXT, QUESTION)
    assert page.inner_text("#answer") == "No answer in this text"
    best, nothing = (float(page.inner_text(place).strip("< %")) for place in ("#score", "#none"))
    assert page.locator("#why").is_visible() == (best > nothing)
    assert page.locator("#found").count() == 0


def test_text_is_shown_as_text_and_places_are_right_beyond_the_first_plane(
    open_page: Open, service: PackService
) -> None:
    page = open_page()
    ask(page, HOSTILE, "<b>where</b> ?")
    assert page.inner_text("#place") == HOSTILE
    assert page.locator("main img").count() == 0
    assert page.title() == "Ask a text · BERTVision"
    said = answer_to(service, "<b>where</b> ?", HOSTILE)
    assert page.inner_text("#found") == HOSTILE[said["start"] : said["end"]] == said["answer"]
    last = said["alternatives"][-1]
    page.locator("#runners button").last.click()
    assert page.inner_text("#found") == last["answer"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_and_examples_answer_at_a_click(open_page: Open, size: str, scheme: str) -> None:
    page = open_page(size, scheme)
    page.locator("#examples button").first.click()
    page.locator("#questions button").first.click()
    page.wait_for_selector("#said:not([hidden])")
    assert page.evaluate("document.documentElement.scrollWidth") == SIZES[size][0]
    ask(page, "abcdefgh" * 200 + " gold", QUESTION)  # a word without an end
    assert page.evaluate("document.documentElement.scrollWidth") == SIZES[size][0]
    light = sum(map(int, page.evaluate("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")))
    assert (light > 600) == (scheme == "light")


def test_an_exported_pack_answers_and_the_page_says_why_it_tells_of_no_layers(tmp_path: Path, browser: Browser) -> None:
    pack = make_packs(tmp_path)["squad2"]
    exported = replace(export_pack(pack, tmp_path / "exported", examples=2), runtime="onnx")
    with listening(app_with(PackService([exported], device="cpu"))) as address:
        page = browser.new_page()
        page.goto(address)
        ask(page, CONTEXT, QUESTION)
        assert page.inner_text("#found") == page.inner_text("#answer")
        assert page.locator("#problem").is_hidden()
        open_layers(page)
        assert "was exported" in page.inner_text("#layers-problem")
        assert page.locator("#layers-note").is_hidden()
        page.close()


def test_packs_of_labels_tags_and_scores_are_tried_on_the_page_too(tmp_path: Path, browser: Browser) -> None:
    packs = make_packs(tmp_path)
    service = PackService([packs[name] for name in ("sst2", "squad2", "sts", "moods")], device="cpu")
    # before the server runs: only one thread may run the encoder
    label, score, tags = service.run(
        [Job(pack=0, text=CONTEXT), Job(pack=2, text="gold", pair=CONTEXT), Job(pack=3, text=CONTEXT)]
    )
    trouble: list[str] = []

    def predict(page: Page, first: str | None) -> None:
        if first is not None:
            page.fill("#question", first)
        page.fill("#text", CONTEXT)
        page.press("#text", "Control+Enter")
        page.wait_for_selector("#predicted:not([hidden])")
        page.wait_for_selector("#ask:not([aria-busy])")

    with listening(app_with(service)) as address:
        page = browser.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(address)
        ask(page, CONTEXT, QUESTION)  # a pack that answers questions comes first
        assert page.inner_text("#answer") in CONTEXT

        page.select_option("#pack", "sst2")
        assert page.locator("#question").is_hidden()
        assert page.locator("#example-texts").is_hidden()
        predict(page, None)
        assert page.inner_text("#chosen") == label["chosen"][0]
        likeliest = sorted(label["labels"], key=lambda one: -one["score"])
        assert page.locator("#labels .what").all_inner_texts() == [one["label"] for one in likeliest]
        assert page.locator("#answered, #in-text, #others, #side").locator("visible=true").count() == 0
        open_layers(page)
        assert page.locator("#layers .chart").count() == 1

        page.select_option("#pack", "sts")
        assert page.inner_text("#question-label") == "First text"
        predict(page, "gold")
        assert float(page.inner_text("#chosen")) == pytest.approx(score["score"], rel=1e-3)
        assert page.locator("#labels").is_hidden()

        page.select_option("#pack", "moods")
        predict(page, None)
        assert page.inner_text("#chosen") == (", ".join(tags["chosen"]) or "No label")
        assert page.locator("#labels li").count() == 3

        page.select_option("#pack", "squad2")
        ask(page, CONTEXT, QUESTION)
        assert page.locator("#predicted").is_hidden()
        assert page.inner_text("#found") == page.inner_text("#answer")
        page.close()
    assert trouble == []


def test_a_page_of_labels_alone_fits_them(tmp_path: Path, browser: Browser) -> None:
    pack = make_packs(tmp_path)["sst2"]
    with listening(app_with(PackService([pack], device="cpu"))) as address:
        page = browser.new_page(viewport={"width": SIZES["phone"][0], "height": SIZES["phone"][1]})
        page.goto(address)
        page.wait_for_selector("#ask:text('Predict')")
        assert page.locator("#problem").is_hidden()
        page.fill("#text", CONTEXT)
        page.click("#ask")
        page.wait_for_selector("#predicted:not([hidden])")
        assert page.evaluate("document.documentElement.scrollWidth") == SIZES["phone"][0]
        page.close()


def test_a_text_that_is_too_long_is_told_in_place(address: str, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(address)
    page.fill("#text", "a " * 30_000)
    page.fill("#question", QUESTION)
    page.press("#question", "Enter")
    page.wait_for_selector("#problem:not([hidden])")
    assert "A text may have 50,000 characters at most, got 60,000" in page.inner_text("#problem")
    ask(page, CONTEXT, QUESTION)
    assert page.locator("#problem").is_hidden()
    page.fill("#text", "a " * 30_000)
    page.press("#question", "Enter")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.locator("#said").is_hidden()  # it answers another question
    page.close()


def test_a_token_is_asked_for_where_the_server_wants_one(service: PackService, browser: Browser) -> None:
    with listening(app_with(service, token="a-secret")) as address:  # noqa: S106 - of a test
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#access:not([hidden])")
        page.fill("#token", "a-secret")
        ask(page, CONTEXT, QUESTION)
        assert page.inner_text("#answer") in CONTEXT
        assert page.locator("#problem").is_hidden()
        page.close()


def test_a_token_by_itself_shows_what_the_packs_read(tmp_path: Path, browser: Browser) -> None:
    pack = make_packs(tmp_path)["sst2"]
    with listening(app_with(PackService([pack], device="cpu"), token="a-secret")) as address:  # noqa: S106 - of a test
        page = browser.new_page()
        page.goto(address)
        page.fill("#token", "a-secret")
        page.fill("#text", CONTEXT)
        page.wait_for_selector("#ask:text('Predict')")  # and no question, which this pack does not read
        assert page.locator("#question, #problem").filter(visible=True).count() == 0
        page.click("#ask")
        page.wait_for_selector("#predicted:not([hidden])")
        page.close()
