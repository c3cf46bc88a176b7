"""Screenshots of all that people look at, and all of them on one sheet: to be looked at before a release.

Run `python -m docs.pictures.screens FOLDER [PICTURE ...]`; without names, all are made. It needs chromium and
chromedriver; 100,000 devices take some minutes.
"""

import re
import subprocess
import sys
from base64 import b64encode
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from markdown_it import MarkdownIt
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from docs.pictures import fleets
from docs.pictures.status_page import PENDING, READY, ROOT, browsing, captured, serving

SECONDS = 1800
DEMO = "reconciler/cli/demo/manifests"
PHONE, DESK = 390, 1400
SETTLED = """
return document.getElementById('live').textContent === 'Live'
  && document.getElementById('waiting').textContent.includes(arguments[0]);
"""
STYLE = """
body{margin:0;padding:24px;background:#fff;color:#111;font:15px/1.5 system-ui,sans-serif;max-width:1000px}
pre{white-space:pre;font:13px/1.4 'DejaVu Sans Mono',monospace}
pre.screen{background:#111;color:#eee;padding:16px;width:max-content}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:4px 8px;text-align:left}
img{max-width:100%}code{background:#f2f2f2}
"""
SHEET = """
body{margin:0;padding:16px;background:#888;font:16px sans-serif}
body{display:grid;grid-template-columns:repeat(4,1fr);gap:16px;align-items:start}
figure{margin:0}figcaption{color:#fff}
img{width:100%;max-height:520px;object-fit:cover;object-position:top left}
"""


def main(folder: Path, names: list[str]) -> None:
    """Make the pictures, then the sheet."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, browsing(DESK) as browser:
        for make in (demo, medium, large, terminal, readme):
            if not names or make.__name__ in names:
                make(browser, folder, Path(place))
        figures = [
            f"<figure><img src='{_embedded(one)}'><figcaption>{one.stem}</figcaption></figure>"
            for one in sorted(folder.glob("*.png"))
            if one.stem != "sheet"
        ]
        _page(browser, Path(place), SHEET, "".join(figures))
        (folder / "sheet.png").write_bytes(captured(browser, DESK))


def demo(browser: webdriver.Chrome, folder: Path, _place: Path) -> None:
    """The page of the demonstration: wide, dark, and as wide as a phone; and an explanation."""
    with serving(DEMO) as url:
        WebDriverWait(browser, SECONDS).until(lambda seen: _answers(seen, url, READY, PENDING))
        views = (("demo", DESK, "light"), ("demo-dark", DESK, "dark"), ("demo-phone", PHONE, "light"))
        for name, width, theme in views:
            _media(browser, theme)
            (folder / f"{name}.png").write_bytes(captured(browser, width))
        _media(browser, "light")
        browser.get(f"{url}/explanation?kind=claim&namespace=training&name=quartet")
        (folder / "explanation.png").write_bytes(captured(browser, 900))


def medium(browser: webdriver.Chrome, folder: Path, place: Path) -> None:
    """10,400 devices."""
    _fleet(browser, folder, place, "devices-10400", nodes=50, pending=60)


def large(browser: webdriver.Chrome, folder: Path, place: Path) -> None:
    """100,048 devices with 1,667 pending claims; also with an open cell, and on a phone."""
    _fleet(browser, folder, place, "devices-100000", nodes=481, pending=1667)


def _fleet(
    browser: webdriver.Chrome, folder: Path, place: Path, name: str, *, nodes: int, pending: int
) -> None:
    manifests = place / f"{name}.json"
    fleets.write(manifests, nodes, pending)
    with serving(str(manifests)) as url:
        settled = f"{pending} claims are pending"
        WebDriverWait(browser, SECONDS, 2).until(lambda seen: _answers(seen, url, SETTLED, settled))
        for path, suffix, width, theme in (
            ("", "", DESK, "light"),
            ("", "-dark", DESK, "dark"),
            ("", "-phone", PHONE, "light"),
            ("?cell=rack-2&by=label%3Dtopology.example.com%2Frack", "-cell", DESK, "light"),
        ):
            browser.get(f"{url}/{path}")
            _media(browser, theme)
            (folder / f"{name}{suffix}.png").write_bytes(captured(browser, width, most=2400))
        _media(browser, "light")


def _answers(browser: webdriver.Chrome, url: str, script: str, given: object) -> bool:
    """Whether a script is true of the page, which is opened if another one is."""
    if not browser.current_url.startswith(url) or not browser.find_elements("id", "live"):
        browser.get(url)
        return False
    return bool(browser.execute_script(script, given))


def terminal(browser: webdriver.Chrome, folder: Path, place: Path) -> None:
    """`top`, by rack, model and namespace, too, and `explain -A`."""
    racks = place / "racks.json"
    fleets.write(racks, 50, 30)
    few, many = _allocated(place, DEMO), _allocated(place, str(racks))
    for name, command in (
        ("top", ("top", *few)),
        ("top-by-rack", ("top", "--by", "label=topology.example.com/rack", *many)),
        ("top-by-model", ("top", "--by", "model", *many)),
        ("top-by-namespace", ("top", "--by", "namespace", *many)),
        ("explain-A", ("explain", "-A", *few)),
    ):
        shown = f"$ dra-reconciler {' '.join(command[: command.index('-f')])}\n"
        text = shown + _run(*command).decode()
        _page(browser, place, STYLE, f"<pre class='screen'>{escape(text)}</pre>")
        (folder / f"{name}.png").write_bytes(captured(browser, 900, most=1200))


def readme(browser: webdriver.Chrome, folder: Path, place: Path) -> None:
    """The README as a repository shows it."""
    text = MarkdownIt("commonmark", {"html": True}).enable("table").render((ROOT / "README.md").read_text())
    text = re.sub(r'src="(?!http)([^"]+)"', lambda found: f'src="{_embedded(ROOT / found[1])}"', text)
    _page(browser, place, STYLE, text)
    (folder / "readme.png").write_bytes(captured(browser, 1048))


def _allocated(place: Path, manifests: str) -> tuple[str, ...]:
    """The options that read manifests with what is allocated: of two objects of a name the first counts."""
    allocated = place / f"allocated-{Path(manifests).name}.json"
    allocated.write_bytes(_run("allocate", "-f", manifests, "-o", "json"))
    return ("-f", str(allocated), "-f", manifests)


def _run(*command: str) -> bytes:
    arguments = [sys.executable, "-m", "reconciler", *command]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, check=False).stdout


def _page(browser: webdriver.Chrome, place: Path, style: str, body: str) -> None:
    file = place / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{body}")
    browser.get(file.as_uri())


def _embedded(picture: Path) -> str:
    kind = "svg+xml" if picture.suffix == ".svg" else picture.suffix[1:]
    return f"data:image/{kind};base64,{b64encode(picture.read_bytes()).decode()}" if picture.exists() else ""


def _media(browser: webdriver.Chrome, theme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
