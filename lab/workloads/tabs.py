#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Opens tabs in a headless Chromium, switches between them, and prints how many switches it made per second.

Usage: tabs.py [TABS [SWITCHES [SIZE]]]. Each tab is a page that makes its own data, SIZE x 2,600 objects with a text
of 200 characters, and a table of 2,000 rows. With 8 tabs of size 5, all processes of Chromium together take 1.2 GB. A
switch brings one tab to the front, walks over a quarter of its data, changes 20 rows, and waits for the layout. Some
tabs are used more often than others (Zipf, 1.0). Tabs, order and data are the same in each run. No network is used.
"""
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

CHROMIUM = "/usr/lib/chromium/chromium"
PAGE = """<!doctype html><meta charset=utf-8><title>%(tab)d</title><table id=t></table><script>
let seed = %(tab)d + 1;
function next() { seed = (seed * 1103515245 + 12345) & 0x7fffffff; return seed >>> 8; }
const words = Array.from({length: 3000}, () => Array.from({length: 3 + next() %% 8},
  () => String.fromCharCode(97 + next() %% 26)).join(""));
function line() { let s = ""; while (s.length < 200) s += words[next() %% 3000] + " "; return s; }
const data = [];
for (let i = 0; i < %(size)d * 2600; i++)
  data.push({id: i, text: line(), score: next() %% 1000, tags: [next(), next()]});
t.innerHTML = data.slice(0, 2000).map(d => `<tr><td>${d.id}<td>${d.text}<td>${d.score}`).join("");
let visit = 0;
function use() {
  let sum = 0, from = visit++ %% 4;
  for (let i = from; i < data.length; i += 4) { sum += data[i].text.charCodeAt(i %% 200) + data[i].score; }
  for (let i = 0; i < 20; i++) t.rows[(visit * 20 + i) %% 2000].cells[2].textContent = sum + i;
  return t.offsetHeight + sum;
}
</script>"""


class Browser:
    """Chromium and the pipe on which it takes commands (its descriptors 3 and 4)."""

    def __init__(self, folder):
        to_read, self.to = os.pipe()
        self.answers, from_write = os.pipe()
        wire = f"exec 3<&{to_read} 4>&{from_write}; exec {CHROMIUM} --headless=new --no-sandbox --disable-gpu " \
            f"--remote-debugging-pipe --no-first-run --disable-background-networking --disable-component-update " \
            f"--disable-sync --disable-extensions --user-data-dir={folder}/profile about:blank"
        self.process = subprocess.Popen(["bash", "-c", wire], pass_fds=[to_read, from_write],
                                        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.numbers, self.rest = itertools.count(1), b""

    def ask(self, method, session=None, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" in self.rest:
                one, self.rest = self.rest.split(b"\0", 1)
                answer = json.loads(one)
                if answer.get("id") == number:
                    if "error" in answer or "exceptionDetails" in answer["result"]:
                        sys.exit(f"{method}: {answer}")
                    return answer["result"]
            more = os.read(self.answers, 65536)
            if not more:
                sys.exit("chromium ended")
            self.rest += more

    def run(self, session, script):
        return self.ask("Runtime.evaluate", session, expression=script, awaitPromise=True)


def require_browser():
    """Ends with what to install where there is no Chromium."""
    if not os.path.exists(CHROMIUM):
        sys.exit(f"{CHROMIUM} is missing: install it with `apt-get install chromium`")


def main():
    require_browser()
    tabs, switches, size = [int(word) for word in sys.argv[1:]] + [8, 200, 5][len(sys.argv) - 1:]
    folder = tempfile.mkdtemp(prefix="tabs-")
    try:
        browser = Browser(folder)
        sessions = []
        for tab in range(tabs):
            with open(f"{folder}/{tab}.html", "w") as page:
                page.write(PAGE % {"tab": tab, "size": size})
            target = browser.ask("Target.createTarget", url=f"file://{folder}/{tab}.html")["targetId"]
            session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            while browser.run(session, "typeof use")["result"]["value"] != "function":
                time.sleep(0.1)
            browser.run(session, "new Promise(r => document.readyState == 'complete' ? r() : onload = r)")
            sessions.append(session)
        order = random.Random(1).choices(range(tabs), [1 / (1 + n) for n in range(tabs)], k=switches)
        times, begin = [], time.monotonic()
        for tab in order:
            start = time.monotonic()
            browser.ask("Page.bringToFront", sessions[tab])
            browser.run(sessions[tab], "use()")
            times.append(time.monotonic() - start)
        taken = time.monotonic() - begin
        times.sort()
        print(f"switches per second: {switches / taken:.3f}")
        print(f"slowest of twenty: {times[len(times) * 19 // 20] * 1000:.0f} ms")
        browser.ask("Browser.close")
        browser.process.wait(10)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
