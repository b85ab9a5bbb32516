/* Helpers and the base class of all plots. */
const SVG = "http://www.w3.org/2000/svg";
const PAD = { left: 50, right: 14, top: 16, bottom: 36 };
const groups = new Map(); // name of a group: charts that share a cursor

function node(name, attributes = {}, ...children) {
  const created = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  created.append(...children);
  return created;
}

function html(name, attributes = {}, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  created.append(...children);
  return created;
}

/** Format a number with three significant digits. */
function formatNumber(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

/** About `count` round numbers between `low` and `high`. */
function roundNumbers(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= rough * 0.999);
  const ticks = [];
  for (let n = Math.ceil(low / size - 1e-9); n * size <= high + size * 1e-9; n++) {
    ticks.push(Number((n * size).toPrecision(12)));
  }
  return ticks;
}

/** Powers of ten between `low` and `high`; within two decades also their multiples 2 and 5. */
function logTicks(low, high) {
  const digits = Math.log10(high / low) < 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
    for (const digit of digits) {
      const value = digit * 10 ** p;
      if (value >= low && value <= high) ticks.push(Number(value.toPrecision(6)));
    }
  }
  return ticks;
}

/** The tooltip of a plot. */
class Tooltip {
  constructor(plot) {
    this.plot = plot;
    this.box = html("div", { class: "tooltip", hidden: "" });
    plot.append(this.box);
  }

  show(x, title, rows) {
    this.box.replaceChildren(html("b", {}, title));
    for (const row of rows) {
      const line = html("div");
      if (row.color) line.append(html("span", { class: "swatch", style: `--series: var(--${row.color})` }));
      line.append(row.text);
      this.box.append(line);
    }
    this.box.hidden = false;
    const available = this.plot.clientWidth, width = this.box.offsetWidth;
    const left = x > available / 2 ? x - width - 12 : x + 12;
    this.box.style.left = `${Math.max(-6, Math.min(left, available - width + 6))}px`;
    this.box.style.top = "18px";
  }

  hide() { this.box.hidden = true; }
}

/** Base class of plots: parses the JSON of a figure and redraws when the width changes. */
class Drawing {
  constructor(figure) {
    this.figure = figure;
    this.spec = JSON.parse(figure.querySelector("script").textContent);
    this.plot = figure.querySelector(".plot");
    this.tooltip = new Tooltip(this.plot);
    this.announcement = html("div", { class: "visually-hidden", "aria-live": "polite" });
    figure.append(this.announcement);
    this.width = 0;
    new ResizeObserver(() => {
      if (this.plot.clientWidth && this.plot.clientWidth !== this.width) this.redraw();
    }).observe(this.plot);
  }

  redraw() {
    this.width = this.plot.clientWidth;
    if (!this.width) return;
    if (this.svg) this.svg.remove();
    this.svg = this.draw();
    this.plot.prepend(this.svg);
  }
}
