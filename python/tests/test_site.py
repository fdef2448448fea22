"""The pages of docs/ as a site, in a browser: light and dark, wide and narrow."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PAGES = ["index.html", "guides/first-study.html", "guides/python.html", "trust.html", "vipl.html"]

# Opens each page in a frame of each width and tells what is wrong with it: words that are hard to
# read on what lies behind them, by the contrast of WCAG 2; a background of the wrong kind; what is
# wider than the screen.
LOOK = """<!doctype html><body><pre id="found"></pre><script>
const light = ([red, green, blue]) => {
  const linear = value =>
    (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
};
const numbers = text => text.match(/[\\d.]+/g).map(Number);
function behind(element, view) {
  for (; element; element = element.parentElement) {
    const colour = numbers(view.getComputedStyle(element).backgroundColor);
    if (colour.length < 4 || colour[3] > 0.5) return colour;
  }
  return [255, 255, 255];
}
const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
function complaints(view) {
  const page = view.document, found = new Set();
  const all = page.documentElement;
  if (all.scrollWidth > all.clientWidth) found.add(`${all.scrollWidth} pixels wide`);
  const background = behind(page.querySelector(".wy-nav-content"), view);
  if ((light(background) < 0.1) !== isDark) found.add("the wrong background");
  const walker = page.createTreeWalker(page.querySelector(".rst-content"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    const style = view.getComputedStyle(element);
    if (style.visibility === "hidden" || style.opacity < 1) continue;
    const pair = [light(numbers(style.color)), light(behind(element, view))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    const what = `${element.tagName} ${element.className}`;
    if (contrast < 4.5) found.add(`${what}: ${contrast.toFixed(1)}`);
  }
  return [...found];
}
// The window is not loaded before its frames are.
const frames = [];
for (const name of PAGES) for (const width of [1280, 400]) {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 900; frame.src = name;
  document.body.append(frame);
  frames.push([`${name}, ${width} wide`, frame]);
}
onload = () => {
  const found = {isDark};
  for (const [name, frame] of frames) {
    const told = complaints(frame.contentWindow);
    if (told.length) found[name] = told;
  }
  document.getElementById("found").textContent = JSON.stringify(found) + "END";
};
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, with the page that looks at the others."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True)
    (folder / "look.html").write_text(LOOK.replace("PAGES", json.dumps(PAGES)), encoding="ascii")
    return folder


@pytest.mark.skipif(BROWSER is None, reason="no Chromium (Debian, Ubuntu: apt install chromium)")
@pytest.mark.parametrize("is_dark", [False, True])
def test_pages_can_be_read(site: Path, is_dark: bool) -> None:
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    colours = ["--force-dark-mode"] if is_dark else []
    command = [BROWSER, *options, *colours, "--dump-dom", f"file://{site}/look.html"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.search(r'<pre id="found">(.*)END</pre>', told)
    assert found, told[:2000]
    assert json.loads(found[1].replace("&amp;", "&")) == {"isDark": is_dark}
