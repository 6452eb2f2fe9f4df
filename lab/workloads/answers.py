#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Asks a headless Chromium for one of twelve kinds of work twice a second, and prints how long the answers took.

Usage: answers.py [SECONDS]. It prints "ready" when each kind was done once, and begins when it reads a line. The kinds
use different code of the browser (JSON, fonts, SVG, dates, tables, hashes, compression ...), each every six seconds, so
that it shows what a service loses whose code is reclaimed. No network is used. See docs/pin.md.
"""
import shutil
import sys
import tempfile
import time

from tabs import Browser, require_browser

SCREENSHOT = "a screenshot"
KINDS = [
    "JSON.parse(JSON.stringify(Array.from({length: 3000}, (_, i) => ({i, s: 'x' + i})))).length",
    "'the quick brown fox '.repeat(2000).replace(/(\\w+) (\\w+)/g, '$2 $1').length",
    """{ const c = document.createElement('canvas'); c.width = c.height = 300; const g = c.getContext('2d');
      for (let i = 0; i < 200; i++) { g.beginPath(); g.arc(i, i, 20, 0, 6); g.fill(); g.fillText('abc' + i, i, i); }
      c.toDataURL().length }""",
    """{ const d = document.createElement('div'), path = i => `<path d="M${i} 0 C 20 ${i} 40 20 50 10"/>`;
      d.innerHTML = '<svg width=200 height=200>' + Array.from({length: 200}, (_, i) => path(i)).join('') + '</svg>';
      document.body.append(d); const h = d.offsetHeight; d.remove(); h }""",
    "Array.from({length: 500}, (_, i) => new Intl.NumberFormat('de').format(i * 1000.5)).join().length",
    "Array.from({length: 200}, (_, i) => new Date(2026, 1, i).toLocaleString('fr', {dateStyle: 'full'})).join().length",
    """{ const t = document.createElement('table'); t.innerHTML = '<tr><td>a<td>b'.repeat(800);
      document.body.append(t); const h = t.offsetHeight; t.remove(); h }""",
    "crypto.subtle ? crypto.subtle.digest('SHA-256', new Uint8Array(1e6)).then(b => b.byteLength) : 0",
    """new DOMParser().parseFromString('<a>' + '<b x="1">t</b>'.repeat(2000) + '</a>', 'text/xml')
      .documentElement.childNodes.length""",
    """{ const d = document.createElement('div'); d.style.cssText = 'display: grid; grid: auto / repeat(9, 1fr)';
      d.innerHTML = '<p>Zażółć gęślą 日本語 العربية</p>'.repeat(300);
      document.body.append(d); const h = d.offsetHeight; d.remove(); h }""",
    """new Response(new Blob(['a'.repeat(500000)]).stream().pipeThrough(new CompressionStream('gzip')))
      .arrayBuffer().then(b => b.byteLength)""",
    SCREENSHOT,
]
LOADED = "document.readyState == 'complete' && location.protocol == 'file:'"


def start(browser, folder):
    """The session of a page that is loaded."""
    with open(f"{folder}/page.html", "w") as page:
        page.write("<!doctype html><title>page</title><body><p>page")
    target = browser.ask("Target.createTarget", url=f"file://{folder}/page.html")["targetId"]
    session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    while browser.run(session, LOADED)["result"]["value"] is not True:
        time.sleep(0.1)
    return session


def main():
    require_browser()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 40
    folder = tempfile.mkdtemp(prefix="answers-")
    try:
        browser = Browser(folder)
        session = start(browser, folder)

        def work(kind):
            if kind == SCREENSHOT:
                browser.ask("Page.captureScreenshot", session)
            else:
                browser.run(session, kind)

        for kind in KINDS:
            work(kind)
        print("ready", flush=True)
        sys.stdin.readline()
        end, times = time.monotonic() + seconds, []
        while time.monotonic() < end:
            begin = time.monotonic()
            work(KINDS[len(times) % len(KINDS)])
            times.append(time.monotonic() - begin)
            time.sleep(max(0, 0.5 - times[-1]))
        times.sort()
        pick = {share: times[min(len(times) - 1, len(times) * share // 100)] * 1000 for share in (50, 90, 99)}
        print(f"answers: {len(times)}")
        for share, milliseconds in pick.items():
            print(f"p{share}: {milliseconds:.1f} ms")
        browser.ask("Browser.close")
        browser.process.wait(10)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
