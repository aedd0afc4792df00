"""The website is complete and accessible, and each lesson page shows what it should."""

import contextlib
import copy
import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from servers import WCAG, axe_violations, browser_page

from tools.website import (
    FOLDERS,
    TEXTS,
    SiteError,
    build_site,
    page,
    write_lessons,
)

ROOT = Path(__file__).resolve().parents[1]
LESSON = "lessons/02_collectives.html"
PAGES = (
    *("index.html", LESSON, "lessons/ko/01_pmap_spmd.html", "handbook/grade.html"),
    *("comparison.html", "api/coursekit.html"),
    "search.html?q=collective",
)
CONTRAST = ("color-contrast",)
NAME = "02_collectives"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Builds the site once, by the command."""
    folder = tmp_path_factory.mktemp("site") / "made"
    command = [sys.executable, "-m", "tools.website", "--to", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"wrote {folder / 'index.html'}\n"
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(folder):
    """Serves a folder; yields its address."""
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(site):
    """A page in Chromium at the site: goes to an address, keeps what it asked for."""
    with served(site) as address, browser_page(width=1280, height=900) as page:
        page.asked, page.faults = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("response", lambda got: got.status < 400 or page.faults.append(got.url))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.at = lambda name: page.goto(address + name)
        page.address = address
        page.at("index.html")
        yield page


def set_mode(browser, mode):
    browser.evaluate(
        "mode => { localStorage.setItem('mode', mode);"
        " localStorage.setItem('theme', mode); }",
        mode,
    )


def cells(name=NAME, folder="lessons"):
    return nbformat.read(ROOT / folder / f"{name}.ipynb", as_version=4)


def made_page(tmp_path, released=None, solved=None, links="LINKS COLAB"):
    released, solved = released or cells(), solved or cells(folder="solutions")
    return page(released, solved, links, tmp_path / "pictures", "en")


def test_every_lesson_has_a_page_and_its_notebook_to_download(site):
    released = sorted((ROOT / "lessons").glob("0*.ipynb"))
    assert len(released) == 5
    for path in released:
        assert (site / "lessons" / path.name).read_bytes() == path.read_bytes()
        text = (site / "lessons" / f"{path.stem}.html").read_text()
        assert f'<a href="{path.stem}.ipynb" download>Download notebook</a>' in text
        assert "https://colab.research.google.com/github/" in text
        assert "colab-badge.svg" not in text


def test_no_page_holds_a_solution_or_a_hidden_test(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for mark in ("BEGIN SOLUTION", "BEGIN HIDDEN", "END SOLUTION", "END HIDDEN"):
            assert f"### {mark}" not in text or "api" in path.parts, path


def test_a_link_to_a_page_shows_what_it_is_about(site):
    for name in ("index.html", LESSON):
        facts = BeautifulSoup((site / name).read_text("utf-8"), "html.parser")
        of = {
            one["property"]: one["content"]
            for one in facts.find_all("meta", property=True)
        }
        assert "distributed JAX training" in of["og:description"]
        picture = of["og:image"].rpartition("/")[2]
        assert (site / "_images" / picture).exists()


def test_a_korean_page_names_a_pictures_description_in_korean(site):
    text = (site / "lessons" / "ko" / f"{NAME}.html").read_text("utf-8")
    assert "말로 보기" in text and "In words" not in text


def images(cell):
    """Lists the pictures among a page's outputs, as HTML."""
    found = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
    return [text for text in found if "<img" in text]


def test_page_shows_stubs_and_what_demonstrations_print_and_draw(tmp_path):
    made = {cell.id: cell for cell in made_page(tmp_path).cells}
    solved = {cell.id: cell for cell in cells(folder="solutions").cells}
    assert "not written yet" in made["masked_mean"].source
    assert made["masked_mean"].outputs == [] == made["check-masked_mean"].outputs
    assert solved["check-masked_mean"].outputs
    assert made["scorecard"].outputs == []
    drawing = next(c for c in made.values() if "draw_collective('lax.psum" in c.source)
    assert "stream" in [output.output_type for output in drawing.outputs]
    pictures = images(drawing)
    assert len(pictures) == 3
    for number, text in enumerate(pictures, 1):
        assert f'src="pictures/{drawing.id}-{number}.png"' in text
        assert (tmp_path / "pictures" / f"{drawing.id}-{number}.png").is_file()
    assert "hide-input" in made["setup"].metadata.tags
    assert made["setup"].metadata.mystnb["code_prompt_show"] == "Show the set-up"
    assert "LINKS https://colab" in made_page(tmp_path).cells[0].source


def test_picture_keeps_its_text_alternative(tmp_path):
    solved = cells(folder="solutions")
    drawing = next(c for c in solved.cells if "draw_collective('lax.psum" in c.source)
    first = next(o for o in drawing.outputs if "image/png" in o.get("data", {}))
    first.metadata = {"image/png": {"alt": 'All hold "280" & more'}}
    made = {cell.id: cell for cell in made_page(tmp_path, solved=solved).cells}
    shown, *others = images(made[drawing.id])
    assert 'alt="All hold &quot;280&quot; &amp; more"' in shown
    assert all('alt="lax.p' in image for image in others)


def test_another_language_gets_pages_that_link_to_the_first(tmp_path):
    """Same cells, other words: lessons/ko/ beside lessons/."""
    root, sources = tmp_path / "course", tmp_path / "docs"
    for folder in ("lessons", "lessons/ko", "solutions"):
        (root / folder).mkdir(parents=True)
    (root / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (root / "solutions" / f"{NAME}.py").touch()
    nbformat.write(cells(folder="solutions"), root / "solutions" / f"{NAME}.ipynb")
    translated = copy.deepcopy(cells())
    translated.cells[0].source = translated.cells[0].source.replace("how", "어떻게")
    nbformat.write(cells(), root / "lessons" / f"{NAME}.ipynb")
    nbformat.write(translated, root / "lessons" / "ko" / f"{NAME}.ipynb")
    write_lessons(sources, root)
    korean = cells(NAME, sources / "lessons" / "ko").cells[0].source
    assert "어떻게" in korean and "노트북 내려받기" in korean
    assert f'href="../{NAME}.html" lang="en" hreflang="en"' in korean
    english = cells(NAME, sources / "lessons").cells[0].source
    assert f'href="ko/{NAME}.html" lang="ko" hreflang="ko"' in english
    assert f"lessons/ko/{NAME}" in (sources / "_lessons.md").read_text()


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(SiteError, match="something else than a site"):
        build_site(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


# What a browser fetches by itself, unlike the address of a link that somebody clicks.
LOADED = ("data", "poster", "src", "srcset")
LOADING = {"dns-prefetch", "icon", "manifest", "modulepreload", "preconnect"}
LOADING |= {"prefetch", "preload", "stylesheet"}
IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")


def problems(site):
    """Yields broken links, and what would be loaded from another host."""
    paths = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    pages = {p.resolve(): BeautifulSoup(p.read_bytes(), "html.parser") for p in paths}
    places = {path: {*values(made, "id", "name")} for path, made in pages.items()}
    loads = {path: IN_STYLES.findall(path.read_text()) for path in site.rglob("*.css")}
    for path, made in pages.items():
        styles = [*(tag.text for tag in made("style")), *values(made, "style")]
        loads[path] = IN_STYLES.findall(" ".join(styles)) + values(made, *LOADED)
        links = made("link", href=True)
        loads[path] += [tag["href"] for tag in links if LOADING & {*tag["rel"]}]
        for address in {*values(made, "href"), *loads[path]}:
            parts = urlsplit(address)
            if parts.scheme == "data":  # a picture within the page
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            target, fragment = target if parts.path else path, unquote(parts.fragment)
            exists = target.is_relative_to(site.resolve()) and target.is_file()
            named = not fragment or fragment in places.get(target, {fragment})
            if not (parts.scheme or parts.netloc or (exists and named)):
                yield f"{path.name} links to {address}, which does not exist."
    for path, addresses in loads.items():
        for address in addresses:
            if urlsplit(address).netloc:
                yield f"{path.name} loads {address} from another host."


def values(made, *keys):
    """Lists the values that attributes have on a page."""
    return [tag[key] for tag in made(True) for key in keys if tag.has_attr(key)]


def test_no_link_is_broken_and_nothing_is_loaded_from_another_host(site):
    assert list(problems(site)) == []


def test_every_language_has_texts_for_its_pages():
    languages = {*FOLDERS.values()}
    assert [key for key, texts in TEXTS.items() if texts.keys() != languages] == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="no.html">', "links to no.html, which does not exist"),
        ('<a href="#no">', "links to #no, which does not exist"),
        ('<a href="b.html#there">', None),
        ('<a href="b.html#no">', "links to b.html#no, which does not exist"),
        ('<a href="../up.html">', "links to ../up.html, which does not exist"),
        ('<a href="https://example.org/x">', None),
        ('<img src="https://example.org/x.png">', "from another host"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "from another host"),
        ('<link rel="canonical" href="https://example.org/">', None),
        ("<style>@import 'https://example.org/x.css'</style>", "from another host"),
        ('<p style="background: url(https://example.org/x)">', "from another host"),
    ],
)
def test_what_is_broken_or_loaded_from_another_host_is_named(tmp_path, body, problem):
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<p id="there">')
    found = list(problems(tmp_path))
    assert len(found) == (problem is not None)
    assert not problem or problem in found[0]


def test_styles_that_load_from_another_host_are_named(tmp_path):
    (tmp_path / "x.css").write_text("@font-face { src: url('https://f.example/x') }")
    [found] = problems(tmp_path)
    assert found == "x.css loads https://f.example/x from another host."


def test_no_page_requests_another_host_or_a_missing_file(browser):
    for name in PAGES:
        browser.at(name)
    browser.wait_for_load_state("networkidle")
    hosts = {urlsplit(url).netloc for url in browser.asked if "data:" not in url[:5]}
    assert hosts == {urlsplit(browser.address).netloc}
    assert browser.faults == []


def test_search_finds_a_lesson(browser):
    browser.at("search.html?q=reduce")
    browser.locator("#search-results a", has_text="Lesson 2").first.wait_for()


def test_button_toggles_dark_mode(browser):
    browser.at(LESSON)
    for mode in ("Dark", "Light"):
        browser.locator("button.theme-switch-button:visible").click()
        browser.get_by_role("button", name=mode, exact=True).click()
        assert browser.locator("html").get_attribute("data-theme") == mode.lower()


def test_hints_unfold_by_keyboard(browser):
    browser.at(LESSON)
    hint = browser.locator("details", has=browser.locator("text=Hint 1")).first
    assert hint.get_attribute("open") is None
    hint.locator("summary").focus()
    browser.keyboard.press("Enter")
    assert hint.get_attribute("open") is not None
    assert hint.locator("p").first.is_visible()


def test_first_tab_offers_to_skip_to_the_text(browser):
    browser.at(LESSON)
    browser.keyboard.press("Tab")
    focused = browser.evaluate("document.activeElement.textContent.trim()")
    assert focused == "Skip to main content"


def test_nothing_scrolls_sideways_on_a_phone(browser):
    browser.set_viewport_size({"width": 390, "height": 844})
    try:
        for name in PAGES:
            browser.at(name)
            if "?q=" in name:  # until all results have come, each with its excerpt
                browser.locator("text=Search finished").wait_for()
                browser.wait_for_load_state("networkidle")
            width = browser.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, f"{name} is {width} wide"
    finally:
        browser.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_axe_finds_no_violation(browser, mode):
    """Of some dark pages the contrast: all else is the same.

    It takes most of the time, and a lesson has the same colours in each language.
    """
    browser.at("index.html")
    set_mode(browser, mode)
    found = []
    for name in PAGES if mode == "light" else PAGES[1::3]:
        browser.at(name)
        assert browser.locator("html").get_attribute("data-theme") == mode
        without = CONTRAST if "/ko/" in name else ()
        rules = WCAG if mode == "light" else CONTRAST
        found += axe_violations(browser, rules, without)
        if folder := os.environ.get("SCREENSHOTS"):
            picture = f"{name.split('?')[0].replace('/', '-')}-{mode}.png"
            browser.screenshot(path=str(Path(folder) / picture))
    assert found == []
