#!/usr/bin/env python3
"""Drives report.html in Chromium, over the WebDriver protocol (W3C), as a reader would.

report_browser.py QUERN CONFIGS: the program and the folder of its configs. Needs chromium and chromium-driver; exit
code 77 (skipped) where they are missing.
"""
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"left": "\ue012", "right": "\ue014", "home": "\ue011", "end": "\ue010", "space": " "}


class Browser:
    """A session of headless Chromium."""

    def __init__(self, folder):
        self.folder = folder
        environment = dict(os.environ, HOME=str(folder))
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.address = f"http://127.0.0.1:{found[1]}"
                break
        options = {
            "binary": shutil.which("chromium"),
            "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--disable-background-networking", "--no-first-run", f"--user-data-dir={folder}/profile"],
        }
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + made["sessionId"]
        self.call("POST", self.session + "/goog/cdp/execute", {
            "cmd": "Browser.setDownloadBehavior", "params": {"behavior": "allow", "downloadPath": str(folder)}})

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        # No proxy: the driver is on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:500]}") from error

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()

    def open(self, page):
        self.call("POST", self.session + "/url", {"url": page.resolve().as_uri()})

    def run(self, script, *arguments):
        """The value of a JavaScript expression; arguments are a[0], a[1], …"""
        body = {"script": f"const a = arguments; return ({script});", "args": list(arguments)}
        return self.call("POST", self.session + "/execute/sync", body)

    def find(self, selector):
        found = self.call("POST", self.session + "/element", {"using": "css selector", "value": selector})
        return self.session + "/element/" + found[ELEMENT]

    def click(self, selector):
        self.call("POST", self.find(selector) + "/click", {})

    def press(self, selector, *keys):
        self.call("POST", self.find(selector) + "/value", {"text": "".join(KEYS[key] for key in keys)})

    def choose(self, selector, value):
        self.click(f'{selector} option[value="{value}"]')

    def resize(self, width, height):
        self.call("POST", self.session + "/window/rect", {"width": width, "height": height})

    def log(self, kind):
        return self.call("POST", self.session + "/se/log", {"type": kind})

    def drawn(self):
        """Waits until what the controls planned is drawn."""
        self.call("POST", self.session + "/execute/async", {
            "script": "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));", "args": []})

    def lines(self, figure):
        """What a figure draws: [label, [[x, y], …]] of each data set, gaps left out."""
        self.drawn()
        return self.run("Chart.getChart(`canvas-${a[0]}`).data.datasets.map((set) => [set.label, set.data"
                        ".filter((p) => Number.isFinite(p.y)).map((p) => [p.x, p.y])])", figure)


def close_to(a, b):
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-9) for x, y in zip(a, b))


def moving_average(values, span):
    weight, mean, missing, out = 1 - 1 / span, 0.0, 1.0, []
    for value in values:
        mean = weight * mean + (1 - weight) * value
        missing *= weight
        out.append(mean / (1 - missing))
    return out


def events(run, name):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == name]


def column(rows, name):
    return [row[name] for row in rows]


def check_slider(browser, run):
    losses = column(events(run, "step"), "loss")
    line = lambda: [y for _, y in browser.lines("loss")[-2][1]]
    browser.press("#smoothing", "home")
    assert close_to(line(), losses), "without smoothing the line is the losses"
    browser.press("#smoothing", *["right"] * 40)
    place = int(browser.run("document.getElementById('smoothing').value"))
    assert place == 40, place
    span = max(10, len(losses) / 5) ** (place / 100)
    assert close_to(line(), moving_average(losses, span)), "the slider moves the line"
    raw = [y for _, y in browser.lines("loss")[0][1]]
    assert close_to(raw, losses), "the raw values stay"


def check_axes(browser, run):
    steps, ends = events(run, "step"), {}
    for axis in ["tokens", "seconds", "step"]:
        browser.choose("#axis", axis)
        ends[axis] = [line[1][-1][0] for line in browser.lines("loss")]
    assert all(x == len(steps) for x in ends["step"]), ends
    assert all(x == steps[-1]["tokens"] for x in ends["tokens"]), ends
    assert all(x >= sum(column(steps, "ms")) / 1000 * 0.99 for x in ends["seconds"]), ends
    kind = lambda figure: browser.run("Chart.getChart(`canvas-${a[0]}`).scales.y.type", figure)
    assert kind("loss") == "linear"
    browser.click("#log")
    browser.drawn()
    assert (kind("loss"), kind("phases")) == ("logarithmic", "linear")
    browser.click("#log")


def check_facts(browser, run):
    best = min(column(events(run, "eval"), "loss"))
    text = browser.run("document.body.innerText")
    assert f"{best:.4f} at step" in text, "the best loss stands in the facts"
    start, = events(run, "start")
    assert start["data_fingerprint"] in text, "and what it learned from"
    assert "completed" in text and f"quern train --config {run}/config.resolved.json" in text
    given = browser.run("[...document.querySelectorAll('tr.given th')].map((th) => th.textContent)")
    assert "\u25cf d_model" in given and "\u25cf max_steps" in given and not any("betas" in path for path in given), given
    shown = browser.run("[...document.querySelectorAll('figure')].filter((f) => !f.hidden).map((f) => f.id.slice(7))")
    assert shown == ["loss", "lr", "grad_norm", "update_ratio", "gap", "tokens_per_second", "phases", "rss"], shown
    assert browser.run("document.querySelector('#samples pre').textContent.length") > 10


def check_csv(browser, run, folder):
    browser.click("#csv")
    saved = folder / f"{run.name}.csv"
    for _ in range(600):
        if saved.exists():
            break
        time.sleep(0.1)
    with saved.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for event in ["step", "eval"]:
        mine, true = [row for row in rows if row["event"] == event], events(run, event)
        assert all(row["run"] == run.name for row in mine)
        for name in ["step", "loss"] + (["tokens", "lr", "grad_norm", "update_ratio", "ms", "rss"] if event == "step" else []):
            assert close_to([float(row[name]) for row in mine], column(true, name)), (event, name)


def check_keyboard(browser):
    browser.press("#canvas-loss", "home")
    assert re.match(r"step 1: each step [\d.]+, training [\d.]+", browser.run("document.getElementById('readout').textContent"))
    browser.press("#canvas-loss", "right", "right")
    assert browser.run("document.getElementById('readout').textContent").startswith("step 3: ")
    cursors = browser.run("[...document.querySelectorAll('.cursor')].filter((c) => !c.hidden).length")
    assert cursors == 8, cursors
    assert browser.run("document.getElementById('canvas-loss').getAttribute('aria-label')").startswith("Loss, ")


def check_narrow(browser):
    for width in [400, 1280]:
        browser.resize(width, 900)
        browser.drawn()
        wide = browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{wide} pixels too wide at {width}"


def check_several(browser, runs):
    names = lambda: browser.run("[...document.querySelectorAll('#summary tbody th')].map((th) => th.textContent)")
    best = {run.name: min(column(events(run, "eval"), "loss")) for run in runs}
    rising = sorted(best, key=best.get)
    assert names() == rising, "the table starts with the lowest loss"
    head = lambda i: f"#summary th:nth-child({i}) button"
    browser.click(head(2))
    assert names() == rising[::-1]
    assert browser.run("document.querySelector('#summary th:nth-child(2)').getAttribute('aria-sort')") == "descending"
    browser.click(head(1))
    assert names() == sorted(best)
    differing = browser.run("[...document.querySelectorAll('#config tbody th')].map((th) => th.textContent)")
    assert set(differing) == {"optim.learning_rate", "run.seed"}, differing

    labels = lambda: [label for label, _ in browser.lines("lr")]
    assert labels() == column([{"n": run.name} for run in runs], "n"), labels()
    browser.click("#runs label:nth-of-type(2) input")
    assert labels() == [run.name for run in runs if run != runs[1]]
    browser.click("#runs label:nth-of-type(2) input")

    browser.press("#smoothing", "home")
    browser.choose("#group", "optim.learning_rate")
    lines = [points for label, points in browser.lines("loss") if label.startswith("learning_rate 0.001 (2 runs)")]
    both = [column(events(run, "step"), "loss") for run in runs[:2]]
    low, high, mean = ([y for _, y in points] for points in lines[:3])
    assert close_to(low, [min(pair) for pair in zip(*both)])
    assert close_to(high, [max(pair) for pair in zip(*both)])
    assert close_to(mean, [sum(pair) / 2 for pair in zip(*both)])


def check_silence(browser):
    wrong = [entry for entry in browser.log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert not wrong, wrong
    for entry in browser.log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            assert url.startswith(("file:", "data:", "blob:", "chrome:")), url


def long_run(folder):
    """A run of 100,000 steps with all that a page can be given, and with a spike and hostile text."""
    folder.mkdir()
    hostile = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\u202e\u001b[31m\u0000"
    with (folder / "metrics.jsonl").open("w") as file:
        say = lambda **line: file.write(json.dumps(line) + "\n")
        say(event="start", time=1.7e9, parameters=10**6, train_tokens=10**8, val_tokens=10**6, vocab_size=50257,
            max_steps=100000, name=hostile, entropy_floor=1.5, threads=2, isa="v3", precision="f32")
        for step in range(1, 100001):
            loss = 2 + 8 * math.exp(-step / 9000) + 0.3 * math.sin(step * 12.9898)
            say(event="step", step=step, tokens=step * 4096, loss=90 if step == 43210 else None if step == 50000 else loss,
                lr=1e-3 * min(1, step / 2000), grad_norm=0.7 + 0.4 * math.sin(step * 78.233), ms=100 + step % 7,
                tokens_per_second=40960 - step % 7, data_ms=1, forward_ms=40, backward_ms=50, optimizer_ms=9, rss=10**9,
                update_ratio=0.001 * (1 + 0.2 * math.sin(step * 37.719)))
            if step % 1000 == 0:
                say(event="eval", step=step, split="val", loss=2.2 + 8 * math.exp(-step / 9000), tokens=10**6, seconds=3,
                    accuracy=1 - math.exp(-step / 9000))
                say(event="sample", step=step, prompt=hostile, text=hostile)
        say(event="anomaly", step=43210, kind="spike", action="none", loss=90, grad_norm=9, text=hostile)
        say(event="warning", step=43210, text=hostile)
        say(event="end", step=100000, status="completed", seconds=1e4)
    return folder


def check_long(browser, page):
    assert page.stat().st_size < 3_000_000, page.stat().st_size
    browser.open(page)
    lines = browser.lines("loss")
    assert max(y for _, y in lines[0][1]) == 90, "the spike is kept"
    assert len(lines[0][1]) < 6000
    assert browser.run("Chart.getChart('canvas-loss').scales.y.max") < 30, "an outlier does not flatten the curve"
    browser.click("#outliers")
    browser.drawn()
    assert browser.run("Chart.getChart('canvas-loss').scales.y.max") > 90
    assert browser.run("typeof window.hit") == "undefined"
    assert browser.run("document.querySelectorAll('#samples img, #warnings img').length") == 0
    assert "</script><script>window.hit = 1" in browser.run("document.querySelector('#samples pre').textContent")
    assert "spike" in browser.run("document.querySelector('#warnings').textContent")
    assert browser.run("document.querySelector('#figure-metric-accuracy') !== null")


def main():
    quern, configs = sys.argv[1:]
    for needed in ["chromium", "chromedriver"]:
        if not shutil.which(needed):
            print(f"skipped: no {needed} here (tools/setup.sh test installs it)")
            return 77
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_quern = lambda *words: subprocess.run([quern, *map(str, words)], check=True, capture_output=True)
        runs = [folder / name for name in ["a", "b", "c"]]
        for run, settings in zip(runs, [["run.seed=1"], ["run.seed=2"], ["optim.learning_rate=0.003", "run.seed=1"]]):
            sets = [word for one in [*settings, "watch.sample_interval=25"] for word in ("--set", one)]
            run_quern("train", "--quiet", "--config", f"{configs}/tiny.json", "--run-dir", run, *sets)
        run_quern("report", *runs, "--out", folder / "all.html")
        run_quern("report", long_run(folder / "long"))
        browser = Browser(folder)
        try:
            browser.open(runs[0] / "report.html")
            check_facts(browser, runs[0])
            check_slider(browser, runs[0])
            check_axes(browser, runs[0])
            check_csv(browser, runs[0], folder)
            check_keyboard(browser)
            check_narrow(browser)
            browser.open(folder / "all.html")
            check_several(browser, runs)
            check_narrow(browser)
            check_long(browser, folder / "long" / "report.html")
            check_silence(browser)
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
