"""The report in a browser: at two widths, in light and in dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.report import write_report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for path in map(shutil.which, BROWSERS) if path), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason=f"needs a browser: {', '.join(BROWSERS)}"),
]

PROBE = """<script>
addEventListener("load", () => {
  const canvas = document.getElementById("heat"), where = document.getElementById("where");
  const box = canvas.getBoundingClientRect(), copy = document.createElement("canvas");
  const pen = copy.getContext("2d", {willReadFrequently: true});
  const colours = () => {
    copy.width = canvas.width;
    copy.height = canvas.height;
    pen.drawImage(canvas, 0, 0);
    const data = pen.getImageData(0, 0, copy.width, copy.height).data, seen = new Set();
    for (let k = 0; k < data.length; k += 4 * 97) seen.add(data.slice(k, k + 4).join());
    return seen.size;
  };
  const shown = getComputedStyle(canvas).visibility === "visible";
  const found = {
    inner: innerWidth, scroll: document.documentElement.scrollWidth,
    body: getComputedStyle(document.body).backgroundColor,
    canvas: {width: box.width, height: box.height, shown, colours: colours()},
    images: [...document.images].map(i => [i.complete, i.naturalWidth]),
    loaded: performance.getEntriesByType("resource").map(e => e.name)
      .filter(name => !name.startsWith("data:")),
    first: where.textContent,
  };
  const before = canvas.toDataURL();
  canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
  found.second = where.textContent;
  document.getElementById("in").click();
  found.zooms = canvas.toDataURL() !== before;
  document.getElementById("all").click();
  const layer = document.getElementById("layer");
  const legends = [...document.querySelectorAll("#viewer [data-layer]")];
  found.layers = [...layer.options].map(option => {
    layer.value = option.value;
    layer.onchange();
    return [option.value, colours(), legends.filter(legend => !legend.hidden).length];
  });
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const linear = x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
  const light = c => .2126 * linear(c[0] / 255) + .7152 * linear(c[1] / 255)
    + .0722 * linear(c[2] / 255);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  found.contrast = 99;
  for (const e of document.querySelectorAll("body *")) {
    const says = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!e.offsetParent || !says) continue;
    const a = light(rgb(getComputedStyle(e).color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < found.contrast) {
      found.contrast = ratio;
      found.faintest = e.outerHTML.slice(0, 200);
    }
  }
  parent.postMessage(JSON.stringify(found), "*");
});
</script>"""

# A browser's window cannot be as narrow as a phone; a frame in it can.
FRAME = """<!doctype html><meta name="color-scheme" content="light dark"><pre id="found"></pre>
<iframe style="border:0;width:%dpx;height:900px"></iframe><script>
addEventListener("message", e => { document.getElementById("found").textContent = e.data; });
document.querySelector("iframe").srcdoc = %s;
</script>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A table of real size, a small one, and one whose labels are awkward."""
    folder = tmp_path_factory.mktemp("report")
    data = kf.datasets.load_bixi()
    trips = np.log1p(data.trips.astype(float))
    trips.iloc[::10] = np.nan
    write_report(
        kf.complete(trips, data.stations, data.days, method="rrmcex"), folder / "real.html"
    )
    rng = np.random.default_rng(0)
    places = pd.DataFrame({"x": np.linspace(0, 1, 20)})
    small = np.sin(5 * places.to_numpy()) * np.arange(1, 7) + 0.1 * rng.standard_normal((20, 6))
    small[rng.random((20, 6)) < 0.3] = np.nan
    write_report(
        kf.complete(small, places, method="kkmcex"), folder / "small.html", value_range=(-9.0, 9.0)
    )
    labels = ["<b>bold</b>", "x" * 400, "\u202eright to left", "👩\u200d👧 " * 30]
    table = pd.DataFrame(rng.random((4, 4)), index=labels, columns=labels).mask(np.eye(4) > 0)
    write_report(kf.complete(table, method="mc", rank=1, mu=0.1), folder / "awkward.html")
    return folder


def look(folder, name, width, scheme):
    """What the browser says about a page; anything on the console is a failure."""
    text = (folder / name).read_text(encoding="utf-8").replace("</body>", f"{PROBE}</body>")
    quoted = json.dumps(text).replace("</", "<\\/").replace("<!--", "<\\!--")
    probe = folder / f"probe-{name}"
    probe.write_text(FRAME % (width, quoted), encoding="utf-8")
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         "--v=0", "--window-size=1400,1000", "--virtual-time-budget=8000", "--dump-dom",
         f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
         f"--user-data-dir={folder / 'profile'}", probe.as_uri()],
        capture_output=True, text=True, check=True, timeout=180,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    found = re.search(r"<pre id=\"found\">(.*?)</pre>", done.stdout, re.S).group(1)
    return json.loads(found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["real.html", "small.html", "awkward.html"])
def test_the_page_in_a_browser(pages, name, width, scheme):
    found = look(pages, name, width, scheme)
    assert found["inner"] == width
    assert found["scroll"] <= width  # nothing sticks out: tables scroll by themselves
    dark = sum(int(part) for part in re.findall(r"\d+", found["body"])[:3]) < 300
    assert dark == (scheme == "dark")
    assert found["loaded"] == []
    assert all(done and pixels for done, pixels in found["images"])
    assert found["canvas"]["shown"]
    assert found["canvas"]["width"] > 0.8 * min(width, 1100)
    assert found["canvas"]["height"] > 200
    assert found["canvas"]["colours"] >= 5
    assert found["first"] != found["second"]
    assert found["zooms"]
    for layer, colours, legends in found["layers"]:
        assert colours >= 2, layer
        assert legends == 1, layer
    assert found["contrast"] >= 4.5, found["faintest"]


def test_the_page_can_be_printed(pages):
    """On paper the still pictures take the place of the viewer."""
    target = pages / "small.pdf"
    subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu",
         f"--user-data-dir={pages / 'profile'}", f"--print-to-pdf={target}",
         (pages / "small.html").as_uri()],
        capture_output=True, check=True, timeout=180,
    )  # fmt: skip
    data = target.read_bytes()
    assert data.startswith(b"%PDF")
    assert len(re.findall(rb"/Subtype\s*/Image", data)) >= 3
