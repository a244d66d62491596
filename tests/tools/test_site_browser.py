"""The website in a headless Chromium: every page, at phone and desktop width, light and dark."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import site_sample
from axe_playwright_python.sync_playwright import Axe
from headless import launched
from playwright.sync_api import Browser, Page

from course_lab import plots
from tools import cli, published, reference, site

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
WIDTHS = {"phone": (390, 844), "desktop": (1280, 800)}

# Hints are opened and have faded in, images are loaded and mathematics is typeset before a page is
# judged.
SETTLE = """async () => {
  document.querySelectorAll("article details").forEach(hint => { hint.open = true; });
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
  await window.MathJax?.startup?.promise;
  await Promise.all(document.getAnimations().map(fading => fading.finished.catch(() => {})));
}"""
FAULTS = """() => {
  const wide = document.documentElement.clientWidth, faults = [];
  const say = (what, element) => faults.push(what + ": " + element.outerHTML.slice(0, 160));
  for (const element of [document.documentElement, document.body])
    if (element.scrollWidth > wide) faults.push(`sideways: ${element.scrollWidth} > ${wide}`);
  for (const image of document.images) {
    if (!image.naturalWidth) say("image missing", image);
    if (!image.alt && !image.closest("a.logo")) say("image without alt", image);
  }
  for (const canvas of document.querySelectorAll("canvas"))
    if (!canvas.getAttribute("aria-label")) say("canvas without aria-label", canvas);
  for (const formula of document.querySelectorAll("span.math, div.math"))
    if (!(formula.closest("nav") && !formula.checkVisibility())  // a heading folded away
        && !formula.querySelector("mjx-container svg")?.getBoundingClientRect().width)
      say("formula not rendered", formula);
  for (const error of document.querySelectorAll("mjx-merror, [data-mjx-error]"))
    say("formula with an error", error);
  const scrolls = element => {
    for (let box = element; box && box !== document.body; box = box.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)
          && box.getBoundingClientRect().right <= wide + 1) return true;
    return false;
  };
  for (const element of document.querySelectorAll(
      "article table, article pre, article img, article canvas, article mjx-container"))
    if (element.getBoundingClientRect().right > wide + 1 && !scrolls(element))
      say("cut off at the right", element);
  return faults;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from launched()


@pytest.fixture(scope="module")
def root(tmp_path_factory, browser) -> Path:
    """The site of the sample and the committed lessons."""
    folder = tmp_path_factory.mktemp("site")
    executed = site_sample.lessons(folder / "executed")
    for path in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(path, executed)
    return site.build(executed, folder / "site", cli.command_lines()).parent


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder on this machine only; its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def address(root) -> Iterator[str]:
    with served(root) as address:
        yield address


def note_failure(request, wrong):
    """A request that the page itself gave up, because it was left or closed, is no fault of it."""
    if request.failure != "net::ERR_ABORTED":
        wrong.append(f"failed: {request.url} {request.failure}")


def open_page(browser: Browser, address: str, width: str) -> tuple[Page, list[str]]:
    """A new page and the list that collects what goes wrong while it is used."""
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    page = browser.new_page(viewport=size, color_scheme="light")
    wrong = []
    loud = {"error", "warning"}
    page.on("console", lambda said: said.type in loud and wrong.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.on("requestfailed", lambda r: note_failure(r, wrong))
    page.on("response", lambda r: r.status >= 400 and wrong.append(f"{r.status}: {r.url}"))

    def only_here(request):
        if not request.url.startswith((address, "data:", "blob:")):
            wrong.append(f"leaves this machine: {request.url}")

    page.on("request", only_here)
    page.set_default_timeout(15_000)
    page.goto(address)
    return page, wrong


def navigation(page: Page) -> list[str]:
    """Addresses of every page in the left navigation, those of closed parts too."""
    links = page.locator("nav.bd-links a.reference.internal")
    found = links.evaluate_all("links => links.map(link => link.href.split('#')[0])")
    return list(dict.fromkeys(found))


def follow(page: Page, target: str) -> None:
    """Go to a page as a reader does: open the menu where it is closed, and click."""
    menu = page.locator("button.primary-toggle:visible")
    if page.viewport_size["width"] < 992:
        menu.first.click()
    page.locator("nav.bd-links details").evaluate_all("parts => parts.forEach(p => p.open = true)")
    links = page.locator("nav.bd-links a.reference.internal:visible")
    addresses = links.evaluate_all("links => links.map(link => link.href.split('#')[0])")
    links.nth(addresses.index(target)).click()
    page.wait_for_url(f"{target}*")


TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
# The theme's title lies in no region. Of what axe fetches by itself only media: it looks for the
# imports of a style sheet in the wrong folder, and no rule with these tags needs them.
RULES = {
    "runOnly": TAGS,
    "preload": {"assets": ["media"]},
    "resultTypes": ["violations"],  # what passes is not described: a fifth of the time
    "rules": {"region": {"enabled": False}},
}
# Thousands of elements that are all alike: mathematics has its own test, and the colours of code
# are looked at on one page.
ALIKE = {"exclude": [["mjx-container"], [".highlight"]]}


def violations(page: Page, context: dict | None = None) -> list[str]:
    """What axe-core finds: the rule, and the first three elements that break it."""
    found = Axe().run(page, context=context, options=RULES).response["violations"]
    return [
        f"{rule['id']}: {rule['help']}: " + " | ".join(n["html"][:160] for n in rule["nodes"][:3])
        for rule in found
    ]


def audit(page: Page) -> list[str]:
    """The rules of accessibility that a page breaks, each with the page's address."""
    context = None if page.url.endswith("01_small.html") else ALIKE
    return [f"{page.url}: {rule}" for rule in violations(page, context)]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_of_the_navigation_in_light_and_dark(browser, address, width):
    """On the desktop each also keeps the rules of accessibility; of the library's pages, which are
    all made alike, one."""
    page, wrong = open_page(browser, address, width)
    targets = navigation(page)
    library = [target for target in targets if "/reference/" in target]
    assert len(targets) > 10 and len(library) > 5
    for target in targets:
        follow(page, target)
        page.evaluate(SETTLE)
        if width == "desktop" and target not in library[1:]:  # before colours fade into others
            wrong += audit(page)
        for mode in ("dark", "light"):
            page.emulate_media(color_scheme=mode)
            page.wait_for_selector(f"html[data-theme={mode}]", state="attached")
            wrong += [f"{page.url} ({mode}): {fault}" for fault in page.evaluate(FAULTS)]
    page.close()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["lessons/01_small.html", "symbols.html"])
def test_no_dark_page_breaks_a_rule_of_accessibility(browser, address, name):
    """Of two pages: in the dark only the colours change, which are the same on all."""
    page, wrong = open_page(browser, address, "desktop")
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}/{name}")
    page.evaluate(SETTLE)
    wrong += audit(page)
    page.close()
    assert not wrong, "\n".join(wrong)


def test_a_broken_rule_is_noticed(browser):
    page = browser.new_page()
    page.set_content("<p style='color: #999; background: #aaa'>pale</p><img src='a.png'>")
    found = {line.split(":")[0] for line in violations(page)}
    page.close()
    assert {"image-alt", "color-contrast", "html-has-lang"} <= found


@pytest.mark.parametrize(
    "body, fault",
    [
        ("<img src='missing.png' alt='a'>", "image missing"),
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "image without alt"),
        ("<canvas></canvas>", "canvas without aria-label"),
        ("<span class='math'>\\(x\\)</span>", "formula not rendered"),
        ("<nav><span class='math'>\\(x\\)</span></nav>", "formula not rendered"),
        ("<mjx-merror>x</mjx-merror>", "formula with an error"),
        ("<div style='width: 5000px'>x</div>", "sideways"),
        (
            "<article style='overflow: hidden'><pre style='width: 5000px'>x</pre></article>",
            "cut off",
        ),
    ],
)
def test_a_fault_is_noticed(browser, body, fault):
    page = browser.new_page()
    page.set_content(body)
    page.evaluate(SETTLE)
    found = page.evaluate(FAULTS)
    page.close()
    assert any(line.startswith(fault) for line in found), found


def test_requests_to_elsewhere_and_script_errors_are_noticed(browser, address):
    page, wrong = open_page(browser, address, "desktop")
    page.set_content(
        "<img src='https://example.org/a.png' alt='a'><img src='/no.png' alt='b'>"
        "<script>console.error('loud'); undefinedName()</script>"
    )
    page.wait_for_load_state("networkidle")
    page.close()
    for kind in ("leaves this machine", "404", "console: loud", "script: undefinedName"):
        assert any(line.startswith(kind) for line in wrong), (kind, wrong)


@pytest.mark.parametrize("width", WIDTHS)
def test_search_finds_softmax(browser, address, width):
    page, wrong = open_page(browser, address, width)
    page.locator(".search-button__button:visible, .search-button-field:visible").first.click()
    page.locator("input[name=q]:visible").first.fill("softmax")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results ul.search li a")
    page.wait_for_function("document.querySelector('.search-summary').textContent.match(/\\d+/)")
    hits = page.locator("#search-results ul.search li a").all_inner_texts()
    page.wait_for_load_state("networkidle")
    page.close()
    assert "1. A small lesson" in hits
    assert not wrong, "\n".join(wrong)


def test_the_theme_button_turns_the_page_dark_and_figures_stay_light(browser, address):
    page, wrong = open_page(browser, address, "desktop")
    page.goto(f"{address}/lessons/01_small.html")
    page.locator(".theme-switch-button:visible").click()
    page.locator(".theme-change-button[data-mode=dark]:visible").click()
    style = "([selector, key]) => getComputedStyle(document.querySelector(selector))[key]"
    red = page.evaluate(style, ["body", "backgroundColor"]).strip("rgba()").split(",")[0]
    assert int(red) < 60
    for figure in (".course-plot", ".course-figure"):
        assert page.evaluate(style, [figure, "backgroundColor"]) == "rgb(253, 252, 249)"
        assert page.evaluate(style, [figure, "filter"]) == "none"
    page.close()
    assert not wrong, "\n".join(wrong)


def test_a_canvas_with_a_slider_moves(browser, address):
    page, wrong = open_page(browser, address, "phone")
    page.goto(f"{address}/lessons/01_small.html")
    before = page.evaluate("document.getElementById('sample').toDataURL()")
    page.locator(".course-figure input").press("ArrowRight")
    assert page.evaluate("document.getElementById('sample').toDataURL()") != before
    page.close()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "lesson, figure",
    [
        ("01_output_layer", ".explorer"),
        ("02_degeneration", ".collapse"),
        ("04_softmax_bottleneck", ".explorer"),
        ("05_tying_and_augmented_loss", ".explorer"),
        ("07b_margins_in_numbers", ".explorer"),
        ("10_monotone_softmaxes", ".explorer"),
    ],
)
def test_a_lessons_own_canvas_follows_its_slider_the_width_and_the_ink(
    browser, address, lesson, figure
):
    """Every picture differs from the one before: moved, narrower, in another colour of the text."""
    page, wrong = open_page(browser, address, "desktop")
    page.goto(f"{address}/lessons/{lesson}.html")
    canvas = page.locator(f"{figure} canvas").last  # lesson 1's first does not move
    slider = page.locator(f"{figure} input").first
    slider.scroll_into_view_if_needed()
    picture = "canvas => canvas.toDataURL()"
    pictures, captions = [canvas.evaluate(picture)], [page.locator(f"{figure} output").inner_text()]
    slider.press("End")
    pictures.append(canvas.evaluate(picture))
    captions.append(page.locator(f"{figure} output").inner_text())
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(200)
    pictures.append(canvas.evaluate(picture))
    page.evaluate(f"document.querySelector('{figure}').style.color = '#eee'")
    page.evaluate("document.body.dataset.turned = 'dark'")  # as a theme says it: by an attribute
    page.wait_for_timeout(200)
    pictures.append(canvas.evaluate(picture))
    page.close()
    assert len(set(pictures)) == 4 and captions[0] != captions[1]
    assert not wrong, "\n".join(wrong)


# How wide and how high what is drawn in the first curve's colour is, in pixels.
INK = """canvas => {
  const {width, height} = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height);
  const xs = [], ys = [];
  for (let i = 0; i < width * height; i++) {
    const [r, g, b] = pixels.data.slice(4 * i, 4 * i + 3);
    if (b > 150 && r < 60 && g < 150) { xs.push(i % width); ys.push(Math.floor(i / width)); }
  }
  const least = values => values.reduce((a, b) => Math.min(a, b));
  const most = values => values.reduce((a, b) => Math.max(a, b));
  return [most(xs) - least(xs), most(ys) - least(ys)];
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_a_circle_on_square_axes_is_round(browser, width):
    turn = np.linspace(0, 2 * np.pi, 200)
    circle = {"circle": (np.cos(turn), np.sin(turn))}
    shape = {}
    for square in (True, False):
        panel = plots.Panel(circle, "x", "y", (-1.2, 1.2), (-1.2, 1.2), square=square)
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_content(plots.explorer({"s": [1]}, [panel], ["told"], (0,)).page)
        across, up = page.locator("canvas").evaluate(INK)
        shape[square] = across / up
        page.close()
    assert shape[True] == pytest.approx(1, abs=0.01) and shape[False] > 1.05


def test_the_foot_of_a_lesson_leads_to_the_lessons_around_it(browser, address):
    """In the place of the theme's own links, which lead from a core lesson to its deeper half."""
    page, wrong = open_page(browser, address, "phone")
    page.goto(f"{address}/lessons/05_tying_and_augmented_loss.html")
    links = page.locator(".course-way a")
    assert [text.partition(".")[0] for text in links.all_inner_texts()] == ["4", "5b", "6"]
    shown = "getComputedStyle(document.querySelector('.prev-next-footer')).display"
    assert page.evaluate(shown) == "none"
    links.last.click()
    page.wait_for_url("**/06_cosine_regularization.html")
    page.goto(f"{address}/symbols.html")
    assert page.evaluate(shown) == "block"  # where there is no foot
    page.close()
    assert not wrong, "\n".join(wrong)


def test_mathematics_is_rendered_from_the_file_system_too(browser, root):
    page = browser.new_page()
    page.goto((root / "symbols.html").as_uri())
    page.evaluate(SETTLE)
    faults = page.evaluate(FAULTS)
    page.close()
    assert faults == []


# --- versions side by side -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def versions(tmp_path_factory, browser) -> Iterator[tuple[Path, str]]:
    """A release and a branch, published beside each other; the folder and its address.

    The library's pages take most of a build and have no part in this.
    """
    folder = tmp_path_factory.mktemp("versions")
    executed = site_sample.lessons(folder / "executed")
    shown = folder / "shown"
    shown.mkdir()
    with served(shown) as address, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "write_pages", lambda folder: None)
        published.publish(executed, shown, "v0.1.0", address, cli.command_lines())
        shutil.copytree(shown / "v0.1.0", shown / "main")
        for page in (shown / "main").rglob("*.html"):
            match = "theme_switcher_version_match = '{}'"
            text = page.read_text("utf-8")
            page.write_text(text.replace(match.format("v0.1.0"), match.format("main")), "utf-8")
        (shown / "main" / "lessons" / "20_other.html").unlink()
        published.write_menu(shown, address)
        yield shown, address


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_menu_changes_the_version_and_keeps_the_page(browser, versions, width, mode):
    page, wrong = open_page(browser, versions[1], width)
    page.wait_for_url(f"{versions[1]}/latest/")  # the newest release, without a version asked for
    page.emulate_media(color_scheme=mode)
    page.goto(f"{versions[1]}/latest/lessons/01_small.html")
    if width == "phone":
        page.locator("button.primary-toggle:visible").first.click()
    button = page.locator(".version-switcher__button:visible")
    assert button.inner_text() == "v0.1.0 (newest)"
    button.click()
    entries = page.locator(".version-switcher__menu:visible a")
    assert entries.all_inner_texts() == ["v0.1.0 (newest)", "main (draft)"]
    assert page.evaluate(FAULTS) == []
    wrong += violations(page, {"include": [[".version-switcher__container"]]})
    entries.nth(1).click()
    page.wait_for_url(f"{versions[1]}/main/lessons/01_small.html")
    page.close()
    assert not wrong, "\n".join(wrong)


def test_a_page_that_another_version_lacks_leads_to_its_first_page(browser, versions):
    page, _ = open_page(browser, versions[1], "desktop")
    page.wait_for_url(f"{versions[1]}/latest/")  # or this redirection would interrupt the next
    page.goto(f"{versions[1]}/v0.1.0/lessons/20_other.html")
    page.locator(".version-switcher__button:visible").click()
    page.locator(".version-switcher__menu:visible a").nth(1).click()
    page.wait_for_url(f"{versions[1]}/main/")
    page.close()


def test_a_published_version_works_from_the_file_system_without_the_menu(browser, versions):
    page = browser.new_page()
    wrong = []
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((versions[0] / "v0.1.0" / "symbols.html").as_uri())
    page.evaluate(SETTLE)
    assert not page.locator(".version-switcher__button:visible").count()
    assert page.evaluate(FAULTS) == wrong == []
    page.close()


def test_a_site_of_one_version_has_no_menu(root):
    assert "version-switcher" not in (root / "index.html").read_text("utf-8")
