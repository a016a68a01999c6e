"""`bertvision report` as a user runs it on real runs, and its page in a browser: by mouse, by keyboard, on a phone."""

import importlib.util
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bertvision.cli.main import main
from report_files import label_run, span_run, write_analysis, write_freeze, write_tuned
from tiny_run import save_tiny_encoder, tiny_request, words, write_questions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Capture = pytest.CaptureFixture[str]

SHORT = ["--length", "64", "--stride", "16", "--question", "24", "--batch", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned run, and an evaluated fit of heads on it with an ensemble."""
    folder = tmp_path_factory.mktemp("runs")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_questions(folder / "data", train=60)
    request = tiny_request("squad2", data, encoder, snapshots=(1.0,), epochs=2, held_out=0.2)
    assert main(words(request, folder / "tuned")) == 0
    fit = ["fit", "squad2", "--data", data, "--heads", "layer_mix,last_layer", "--held-out", "0.2", *SHORT]
    assert main([*fit, "--encoder", f"{folder}/tuned", "--out", f"{folder}/fit"]) == 0
    assert main(["evaluate", f"{folder}/fit", "--device", "cpu", "--bootstrap", "100"]) == 0
    assert main(["ensemble", f"{folder}/fit", "--device", "cpu", "--bootstrap", "100"]) == 0
    return folder


def test_a_report_of_real_runs_has_their_numbers_and_their_commands(capsys: Capture, place: Path) -> None:
    capsys.readouterr()
    out = place / "report"
    assert main(["report", f"{place}/tuned", f"{place}/fit", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "2 runs, 1 evaluation, 1 ensemble on squad2" in shown
    assert f"Look at it: {out}/index.html" in shown.replace("\n", "")
    page = (out / "index.html").read_text(encoding="utf-8")
    record = json.loads((place / "fit" / "evaluation" / "dev" / "evaluation.json").read_text(encoding="utf-8"))
    for text in (page, (out / "report.md").read_text(encoding="utf-8")):
        assert all(f"{row['scores']['fitted']['values']['f1']['value']:.1f}" in text for row in record["rows"])
        assert record["command"] in text
        assert f"bertvision fit squad2 --data {place}/data --heads layer_mix,last_layer" in text
    (card,) = [path for path in (out / "cards").iterdir() if path.name.endswith("fit")]
    assert "library_name: bertvision" in (card / "README.md").read_text(encoding="utf-8")
    assert list((out / "tables").glob("scores-squad2-*.tex"))


def test_a_report_tells_its_files_as_json(capsys: Capture, place: Path, tmp_path: Path) -> None:
    capsys.readouterr()
    assert main(["report", f"{place}/tuned", "--title", "Mine", "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["page"] == str(tmp_path / "out" / "index.html")
    assert all((tmp_path / "out" / name).is_file() for name in told["files"])


def test_what_cannot_be_reported_is_an_error_and_nothing_is_written(
    capsys: Capture, place: Path, tmp_path: Path
) -> None:
    capsys.readouterr()
    assert main(["report", "--out", str(tmp_path / "out")]) == 2
    assert "RUNS" in capsys.readouterr().err
    assert main(["report", f"{place}/data", "--out", str(tmp_path / "out")]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with something of every kind."""
    folder = tmp_path_factory.mktemp("page")
    runs = [label_run(folder / "labels"), span_run(folder / "spans"), write_tuned(folder / "tuned")]
    write_analysis(runs[0])
    runs.append(write_freeze(folder / "freeze"))
    assert main(["report", *map(str, runs), "--out", str(folder / "report")]) == 0
    return folder / "report" / "index.html"


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("needs the package playwright: pip install 'bertvision[dev]'")
    if chromium is None:
        pytest.skip("needs Chromium on the path")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - may be absent

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: "Browser", page_file: Path) -> "Iterator[Page]":
    """The page, opened; complaints and requests are told at the end."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: complaints.append(request.url) if request.url != page_file.as_uri() else None)
    opened.goto(page_file.as_uri())
    yield opened
    opened.close()
    assert [text for text in complaints if not text.startswith("data:,")] == []


def column(page: "Page", table: str, header: str) -> list[str]:
    """The cells under a header, from top to bottom."""
    headers = page.locator(f"#{table} thead th").all_inner_texts()
    place = [text.strip() for text in headers].index(header) + 1
    return page.locator(f"#{table} tbody tr > :nth-child({place})").all_inner_texts()


SCORES = "scores-sst5-built-in-set"


def test_a_table_is_sorted_by_mouse(page: "Page") -> None:
    button = page.locator(f"#{SCORES} thead button", has_text="parameters")
    button.click()
    assert column(page, SCORES, "parameters") == ["50,000", "1,925", "1,925"]
    header = page.locator(f"#{SCORES} thead th", has_text="parameters")
    assert header.get_attribute("aria-sort") == "descending"
    button.click()
    assert column(page, SCORES, "parameters") == ["1,925", "1,925", "50,000"]
    assert header.get_attribute("aria-sort") == "ascending"
    assert "sorted by parameters, ascending" in page.locator("#said").inner_text()


def test_a_table_is_sorted_by_keyboard_and_what_is_missing_stays_last(page: "Page") -> None:
    page.locator(f"#{SCORES} thead button", has_text="held out").focus()
    for order in (["0.500", "0.400", "–"], ["0.400", "0.500", "–"]):  # noqa: RUF001 - the dash of numbers
        page.keyboard.press("Enter")
        assert column(page, SCORES, "held out") == order
    page.locator(f"#{SCORES} thead button", has_text="model").focus()
    page.keyboard.press("Space")
    assert column(page, SCORES, "model") == ["000-layer_mix", "001-last_layer", "own_output"]
    sorts = page.locator(f"#{SCORES} thead th[aria-sort=ascending]")
    assert sorts.count() == 1


def test_the_first_stop_of_the_keyboard_skips_to_the_results(page: "Page") -> None:
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_number_leads_to_its_record(page: "Page") -> None:
    page.locator(f"#{SCORES} tbody td a").first.click()
    target = page.evaluate("location.hash")
    assert "bertvision evaluate" in page.locator(target).inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_and_the_switch(page: "Page", scheme: str) -> None:
    other = {"light": "dark", "dark": "light"}[scheme]
    shown = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme=other)  # type: ignore[arg-type]  # one of the two
    as_other = page.evaluate(shown)
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of the two
    as_asked = page.evaluate(shown)
    assert as_other != as_asked
    page.locator(f"#theme-{other}").check(force=True)
    assert page.evaluate(shown) == as_other


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(page: "Page", width: int, tmp_path: Path) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 50_000


def test_printing_shows_every_row_on_white_paper(page: "Page") -> None:
    page.locator("#theme-dark").check(force=True)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll')).maxHeight") == "none"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
