"""Writes a profile as a self-contained HTML page with a flame graph.

Each call is a bar under its caller; calls with the same path share one bar, as wide as their total
time. Click a bar to zoom in, Escape to zoom out.
"""

from __future__ import annotations

import html
import json
from typing import Any

from ..autograd.profiler_util import EventList, FunctionEvent


class _Bar:
    """All calls with the same path of names from the outermost caller."""

    __slots__ = ("children", "count", "name", "time_us")

    def __init__(self, name: str) -> None:
        self.name, self.time_us, self.count = name, 0.0, 0
        self.children: dict[str, _Bar] = {}

    def add(self, event: FunctionEvent) -> None:
        """Add a call and its nested calls."""
        bar = self.children.setdefault(event.name, _Bar(event.name))
        bar.time_us += event.cpu_time_total
        bar.count += 1
        for child in event.cpu_children:
            bar.add(child)

    def plain(self) -> dict[str, Any]:
        """Return the bar as plain data for the page, longest children first."""
        children = sorted(self.children.values(), key=lambda bar: -bar.time_us)
        return {"n": self.name, "t": round(self.time_us, 3), "c": self.count,
                "k": [bar.plain() for bar in children]}


def write_flame_graph(profile: Any, path: str, title: str = "profile") -> None:
    """Write a profile's calls as an HTML page with a flame graph.

    >>> with torch.profiler.profile() as prof:
    ...     y = torch.ones(2) + 1
    >>> torch.profiler.write_flame_graph(prof, "/dev/null")
    """
    events: EventList = profile.events()
    root = _Bar(title)
    for event in events:
        if event.cpu_parent is None:
            root.add(event)
            root.time_us += event.cpu_time_total
            root.count += 1
    data = json.dumps(root.plain()).replace("<", "\\u003c")
    page = _PAGE.replace("__TITLE__", html.escape(title)).replace("__DATA__", data)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>__TITLE__</title>
<style>
body { font: 13px/1.4 system-ui, sans-serif; margin: 16px; color: #222; background: #fff; }
#graph { position: relative; }
.bar { position: absolute; height: 19px; box-sizing: border-box; border: 1px solid #fff;
  border-radius: 2px; overflow: hidden; white-space: nowrap; padding: 0 4px; cursor: pointer;
  font-size: 12px; line-height: 17px; }
.bar:hover { outline: 2px solid #222; z-index: 1; }
#about { min-height: 1.4em; margin: 8px 0; }
</style>
<h1 style="font-size:16px;margin:0">__TITLE__</h1>
<p id="about">Click a bar to look at it alone; Escape goes back.</p>
<div id="graph"></div>
<script>
const root = __DATA__, graph = document.getElementById("graph");
const about = document.getElementById("about");
const colours = {aten: "#f6b26b", kernel: "#93c47d", nn: "#9fc5e8", Backward: "#d5a6bd"};
function colour(name) {
  if (name.startsWith("aten::")) return colours.aten;
  if (name.startsWith("kernel: ")) return colours.kernel;
  if (name.startsWith("nn.Module: ")) return colours.nn;
  return /Backward\\d*$/.test(name) ? colours.Backward : "#ffe599";
}
function time(us) {
  return us >= 1e6 ? (us / 1e6).toFixed(3) + " s" : us >= 1e3 ? (us / 1e3).toFixed(3) + " ms"
    : us.toFixed(1) + " us";
}
function draw(top) {
  graph.replaceChildren();
  const width = graph.clientWidth;
  let depth = 0;
  (function bar(node, x, w, level) {
    if (w < 1) return;
    depth = Math.max(depth, level);
    const box = document.createElement("div");
    box.className = "bar";
    box.style.cssText = `left:${x}px;top:${level * 20}px;width:${w}px;background:${colour(node.n)}`;
    box.textContent = w > 30 ? node.n : "";
    const share = (100 * node.t / root.t).toFixed(1);
    box.title = `${node.n}: ${time(node.t)}, ${share} %, ${node.c} calls`;
    box.onmouseover = () => { about.textContent = box.title; };
    box.onclick = () => draw(node);
    graph.append(box);
    for (const child of node.k) {
      const part = node.t ? w * child.t / node.t : 0;
      bar(child, x, part, level + 1);
      x += part;
    }
  })(top, 0, width, 0);
  graph.style.height = (depth + 1) * 20 + "px";
}
addEventListener("keydown", event => { if (event.key === "Escape") draw(root); });
addEventListener("resize", () => draw(root));
draw(root);
</script></html>
"""
