"""Render panels as a self-contained HTML page or a notebook's output, with values on hover."""

from __future__ import annotations

import json
from html import escape

from ..state.formatting import shorten
from .plot_panel import Panel
from .svg import choose_color, place_in, render_svg


def render_page(panels: list[Panel], title: str) -> str:
    """Return a complete page."""
    return _PAGE.format(title=escape(title), style=_STYLE, body=render_fragment(panels, title))


def render_notebook_part(panels: list[Panel], title: str) -> str:
    """Return the HTML for the output of a notebook cell."""
    return f"<style>{_STYLE}</style>{render_fragment(panels, title)}"


def render_fragment(panels: list[Panel], title: str) -> str:
    """Return the title, the panels, and a table of last and best values."""
    figures = "\n".join(map(_render_figure, panels))
    return (
        f"<div class='flambeau-curves'><h1>{escape(title)}</h1><div class='panels'>{figures}</div>"
        f"{_render_table(panels)}<div class='values' hidden></div><script>{_SCRIPT}</script></div>"
    )


def _render_figure(panel: Panel) -> str:
    points = escape(json.dumps(_list_points(panel)), quote=True)
    return f"<figure data-points='{points}'>{render_svg([panel])}</figure>"


def _list_points(panel: Panel) -> list[list[object]]:
    """Return [x in pixels, label of x, [[line, color, y in pixels, value], ...]] by x."""
    to_pixels = place_in(panel)
    rows: dict[float, list[object]] = {}
    for index, (label, points) in enumerate(panel.lines.items()):
        for x, y in points:
            position = panel.place(x, y)
            if position is None:
                continue
            px, py = to_pixels(*position)
            row = rows.setdefault(
                x, [round(px, 1), f"{panel.x_label} {shorten(x)}", []]
            )
            row[2].append([label, choose_color(label, index), round(py, 1), f"{y:.6g}"])  # type: ignore[attr-defined]
    return [rows[x] for x in sorted(rows)]


def _render_table(panels: list[Panel]) -> str:
    rows = []
    for panel in panels:
        for label, points in panel.lines.items():
            best = panel.best.get(label)
            cells = [panel.title, label, shorten(points[-1][1])]
            cells += [shorten(best[1]), shorten(best[0])] if best else ["", ""]
            rows.append("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>")
    x_label, mark = (panels[0].x_label, panels[0].mark) if panels else ("", "best")
    names = ("metric", "data", "last", mark, f"at {x_label}")
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    return f"<table><tr>{head}</tr>\n" + "\n".join(rows) + "</table>"


_STYLE = """
.flambeau-curves { font: 14px/1.5 system-ui, sans-serif; color: #3a3f45; background: #fff;
  padding: 24px 32px; max-width: 1400px; margin: 0 auto; box-sizing: border-box }
.flambeau-curves h1 { font-size: 20px; margin: 0 0 12px }
.flambeau-curves .panels { display: grid; gap: 12px 20px;
  grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr)) }
.flambeau-curves figure { margin: 0; max-width: 620px }
.flambeau-curves svg { width: 100%; height: auto; display: block }
.flambeau-curves table { border-collapse: collapse; margin-top: 20px }
.flambeau-curves th, .flambeau-curves td { text-align: left; padding: 3px 18px 3px 0;
  border-bottom: 1px solid #e6e8ea; background: #fff }
.flambeau-curves th:nth-child(n+3), .flambeau-curves td:nth-child(n+3) { text-align: right;
  font-variant-numeric: tabular-nums }
.flambeau-curves .values { position: fixed; pointer-events: none; background: #fff; z-index: 9;
  border: 1px solid #c9ced3; border-radius: 6px; padding: 5px 10px; font-size: 13px;
  box-shadow: 0 2px 8px #0002; white-space: nowrap }
@media (max-width: 600px) { .flambeau-curves { padding: 16px } }
"""

_SCRIPT = """
(() => {
  const root = document.currentScript.parentElement, box = root.querySelector(".values");
  for (const figure of root.querySelectorAll("figure")) {
    const points = JSON.parse(figure.dataset.points), svg = figure.querySelector("svg");
    const marks = document.createElementNS(svg.namespaceURI, "g");
    svg.append(marks);
    svg.addEventListener("pointermove", event => {
      const area = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / area.width;
      const x = (event.clientX - area.left) * scale;
      const near = points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      marks.innerHTML = near[2].map(([, color, y]) =>
        `<circle cx="${near[0]}" cy="${y}" r="4" fill="${color}" stroke="#fff"/>`).join("");
      box.replaceChildren(near[1], ...near[2].map(([label, color, , value]) => {
        const line = document.createElement("div");
        line.textContent = `${label} ${value}`;
        line.style.color = color;
        return line;
      }));
      box.hidden = false;
      const left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
      box.style.left = left + "px";
      box.style.top = event.clientY + 14 + "px";
    });
    svg.addEventListener("pointerleave", () => { box.hidden = true; marks.replaceChildren(); });
  }
})();
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body {{ margin: 0; background: #fff }}{style}</style></head>
<body>{body}</body></html>
"""
