/* What all drawings of the page share. */
const SVG = "http://www.w3.org/2000/svg";
const PAD = { left: 50, right: 14, top: 16, bottom: 36 };
const groups = new Map(); // charts whose cursors move together, by the name of their group

function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A number with about three digits. */
function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

/** About `count` round numbers within a range. */
function roundNumbers(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / size - 1e-9); n * size <= high + size * 1e-9; n++) {
    found.push(Number((n * size).toPrecision(12)));
  }
  return found;
}

/** Powers of ten within a range, and 2 and 5 times them where there are few. */
function powers(low, high) {
  const digits = Math.log10(high / low) < 2 ? [1, 2, 5] : [1];
  const found = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
    for (const digit of digits) {
      const value = digit * 10 ** p;
      if (value >= low && value <= high) found.push(Number(value.toPrecision(6)));
    }
  }
  return found;
}

/** A box with text beside what is pointed at, within `plot`. */
class Tip {
  constructor(plot) {
    this.plot = plot;
    this.box = html("div", { class: "tip", hidden: "" });
    plot.append(this.box);
  }

  show(x, title, rows) {
    this.box.replaceChildren(html("b", {}, title));
    for (const row of rows) {
      const line = html("div");
      if (row.look) line.append(html("span", { class: "swatch", style: `--series: var(--${row.look})` }));
      line.append(row.text);
      this.box.append(line);
    }
    this.box.hidden = false;
    const room = this.plot.clientWidth, wide = this.box.offsetWidth;
    const left = x > room / 2 ? x - wide - 12 : x + 12;
    this.box.style.left = `${Math.max(-6, Math.min(left, room - wide + 6))}px`;
    this.box.style.top = "18px";
  }

  hide() { this.box.hidden = true; }
}

/** What all drawings share: they are drawn again when their place changes its width. */
class Drawing {
  constructor(figure) {
    this.figure = figure;
    this.spec = JSON.parse(figure.querySelector("script").textContent);
    this.plot = figure.querySelector(".plot");
    this.tip = new Tip(this.plot);
    this.said = html("div", { class: "unseen", "aria-live": "polite" });
    figure.append(this.said);
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
