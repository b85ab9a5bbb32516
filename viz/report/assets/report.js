"use strict";
/* Charts that answer to the pointer and to arrow keys, films that can be stepped, a dark side. */
(() => {
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

  class Chart extends Drawing {
    constructor(figure) {
      super(figure);
      this.hidden = new Set(this.spec.series.filter((s) => s.hidden).map((s) => s.name));
      this.at = null;
      this.addLegend();
      this.addTable();
      if (this.spec.group) {
        if (!groups.has(this.spec.group)) groups.set(this.spec.group, []);
        groups.get(this.spec.group).push(this);
      }
      this.plot.addEventListener("pointermove", (event) => this.follow(event));
      this.plot.addEventListener("pointerleave", () => this.leave());
      this.plot.addEventListener("blur", () => this.leave());
      this.plot.addEventListener("keydown", (event) => this.onKey(event));
      this.redraw();
    }

    get shown() { return this.spec.series.filter((series) => !this.hidden.has(series.name)); }

    get places() {
      const all = new Set(this.shown.flatMap((series) => series.x));
      return [...all].sort((a, b) => a - b);
    }

    addLegend() {
      const legend = this.figure.querySelector(".legend");
      if (this.spec.series.length < 2) return;
      for (const series of this.spec.series) {
        const button = html(
          "button",
          { type: "button", class: series.dashed ? "dashed" : "", style: `--series: var(--${series.look})` },
          html("span", { class: "swatch" }), series.name,
        );
        button.setAttribute("aria-pressed", String(!this.hidden.has(series.name)));
        button.title = "Show or hide";
        button.addEventListener("click", () => {
          if (!this.hidden.delete(series.name)) this.hidden.add(series.name);
          button.setAttribute("aria-pressed", String(!this.hidden.has(series.name)));
          this.redraw();
        });
        legend.append(button);
      }
    }

    /** The numbers as a table, made when it is opened. */
    addTable() {
      const details = this.figure.querySelector("details");
      details.addEventListener("toggle", () => {
        if (!details.open || details.querySelector("table")) return;
        const table = html("table"), head = html("tr", {}, html("th", {}, this.spec.x));
        for (const series of this.spec.series) head.append(html("th", { class: "number" }, series.name));
        const body = html("tbody");
        const places = [...new Set(this.spec.series.flatMap((s) => s.x))].sort((a, b) => a - b);
        for (const place of places) {
          const row = html("tr", {}, html("th", {}, short(place)));
          for (const series of this.spec.series) {
            row.append(html("td", { class: "number" }, this.value(series, place)));
          }
          body.append(row);
        }
        table.append(html("thead", {}, head), body);
        details.append(html("div", { class: "scroll", tabindex: "0" }, table));
      });
    }

    value(series, place) {
      const index = series.x.indexOf(place);
      if (index < 0 || series.y[index] === null) return "–";
      const text = short(series.y[index]);
      if (!series.low || series.low[index] === null) return text;
      return `${text} (${short(series.low[index])} to ${short(series.high[index])})`;
    }

    /** The range of the numbers, and of intervals where these are not extreme. */
    limits() {
      const known = (values) => values.filter((v) => v !== null && (!this.spec.log || v > 0));
      const values = this.shown.flatMap((series) => known(series.y));
      if (this.spec.zero) values.push(0);
      for (const rule of this.spec.rules) values.push(rule.y);
      if (!values.length) return [0, 1];
      let low = Math.min(...values), high = Math.max(...values);
      if (this.spec.log) return low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1];
      const reach = Math.max(high - low, 1e-9);
      for (const series of this.shown) {
        for (const bound of known([...(series.low || []), ...(series.high || [])])) {
          if (bound > low - reach && bound < high + reach) {
            low = Math.min(low, bound);
            high = Math.max(high, bound);
          }
        }
      }
      const room = 0.06 * (high - low) || 0.5;
      const floor = this.spec.kind === "bars" && low >= 0 ? 0 : low - room;
      return [floor, high + room];
    }

    scales() {
      const width = this.plot.clientWidth, height = this.plot.clientHeight;
      const [low, high] = this.limits();
      const places = this.spec.series.flatMap((series) => series.x);
      let first = Math.min(...places), last = Math.max(...places);
      if (this.spec.kind === "bars") {
        first -= this.spec.bar / 2;
        last += this.spec.bar / 2;
      }
      if (this.spec.span) [first, last] = this.spec.span;
      if (first === last) [first, last] = [first - 1, last + 1];
      const inner = width - PAD.left - PAD.right, tall = height - PAD.top - PAD.bottom;
      const bend = this.spec.log ? Math.log : (value) => value;
      this.x = (place) => PAD.left + ((place - first) / (last - first)) * inner;
      this.y = (value) => {
        const share = (bend(high) - bend(Math.min(Math.max(value, low), high))) / (bend(high) - bend(low));
        return PAD.top + share * tall;
      };
      return { width, height, low, high, first, last, inner, tall };
    }

    draw() {
      const box = this.scales();
      const svg = node("svg", { viewBox: `0 0 ${box.width} ${box.height}`, "aria-hidden": "true" });
      this.drawAxes(svg, box);
      for (const extent of this.spec.extents) this.drawExtent(svg, extent, box);
      for (const series of this.shown) {
        if (this.spec.kind === "bars") this.drawBars(svg, series, box);
        else this.drawCurve(svg, series);
      }
      this.cursor = node("g");
      svg.append(this.cursor);
      return svg;
    }

    drawAxes(svg, { width, height, low, high, first, last, inner }) {
      const bottom = height - PAD.bottom;
      const values = this.spec.log ? powers(low, high) : roundNumbers(low, high, 5);
      for (const value of values) {
        const y = this.y(value), zero = value === 0 && this.spec.zero;
        svg.append(node("line", { class: zero ? "zero" : "grid", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }));
        svg.append(node("text", { x: PAD.left - 7, y: y + 4, "text-anchor": "end" }, short(value)));
      }
      const count = Math.max(2, Math.floor(inner / 75));
      const whole = this.spec.whole;
      for (const place of roundNumbers(first, last, count)) {
        if (whole && !Number.isInteger(place)) continue;
        svg.append(node("line", { class: "axis", x1: this.x(place), x2: this.x(place), y1: bottom, y2: bottom + 4 }));
        svg.append(node("text", { x: this.x(place), y: bottom + 17, "text-anchor": "middle" }, short(place)));
      }
      svg.append(node("line", { class: "axis", x1: PAD.left, x2: width - PAD.right, y1: bottom, y2: bottom }));
      svg.append(node("text", { x: width - PAD.right, y: height - 3, "text-anchor": "end" }, this.spec.x));
      svg.append(node("text", { x: 0, y: 9 }, this.spec.y));
      for (const rule of this.spec.rules) {
        const y = this.y(rule.y);
        svg.append(node("line", { class: "rule", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }));
        svg.append(node("text", { x: width - PAD.right - 4, y: y - 4, "text-anchor": "end" }, rule.text));
      }
      if (this.spec.diagonal) {
        const from = Math.max(first, low), to = Math.min(last, high);
        svg.append(node("line", { class: "rule", x1: this.x(from), y1: this.y(from), x2: this.x(to), y2: this.y(to) }));
      }
    }

    /** Steps over which something holds. */
    drawExtent(svg, extent, { height }) {
      const left = PAD.left, right = this.x(extent.x), bottom = height - PAD.bottom;
      if (right <= left) return;
      svg.append(node("rect", { class: "extent", x: left, y: PAD.top, width: right - left, height: bottom - PAD.top }));
      svg.append(node("line", { class: "extent-edge", x1: right, x2: right, y1: PAD.top, y2: bottom }));
      const beside = right + 150 > this.plot.clientWidth;
      svg.append(node("text", {
        class: "extent-name", x: beside ? right - 5 : right + 5, y: PAD.top + 13,
        "text-anchor": beside ? "end" : "start",
      }, extent.text));
    }

    drawBars(svg, series) {
      const floor = this.y(0);
      series.x.forEach((place, index) => {
        const value = series.y[index];
        if (value === null) return;
        const left = this.x(place - this.spec.bar / 2), right = this.x(place + this.spec.bar / 2);
        const top = this.y(value);
        svg.append(node("rect", {
          class: "bar", style: `--series: var(--${series.look})`, x: left + 0.5,
          width: Math.max(1, right - left - 1), y: Math.min(top, floor), height: Math.abs(floor - top),
        }));
      });
    }

    drawCurve(svg, series) {
      const group = node("g", { class: series.dashed ? "series dashed" : "series", style: `--series: var(--${series.look})` });
      const there = series.x.map((_, i) => i).filter((i) => series.y[i] !== null);
      if (series.low) {
        const known = there.filter((i) => series.low[i] !== null);
        if (known.length > 1) {
          const over = known.map((i) => `${this.x(series.x[i])},${this.y(series.high[i])}`);
          const under = known.reverse().map((i) => `${this.x(series.x[i])},${this.y(series.low[i])}`);
          group.append(node("path", { class: "band", d: `M${over.join("L")}L${under.join("L")}Z` }));
        }
      }
      let path = "", open = false;
      series.x.forEach((place, i) => {
        if (series.y[i] === null) { open = this.spec.kind !== "lines" ? open : false; return; }
        path += `${open ? "L" : "M"}${this.x(place)},${this.y(series.y[i])}`;
        open = true;
      });
      if (!series.loose) group.append(node("path", { class: "curve", d: path }));
      if (this.spec.kind === "points" || there.length < 3) {
        for (const i of there) {
          const r = series.weight ? 2.5 + 5.5 * Math.sqrt(series.weight[i]) : 3.5;
          group.append(node("circle", { class: "dot", cx: this.x(series.x[i]), cy: this.y(series.y[i]), r }));
        }
      }
      svg.append(group);
    }

    follow(event) {
      if (!this.x) return;
      const at = event.clientX - this.plot.getBoundingClientRect().left;
      const places = this.places;
      if (!places.length) return;
      let best = places[0];
      for (const place of places) {
        if (Math.abs(this.x(place) - at) < Math.abs(this.x(best) - at)) best = place;
      }
      this.point(best);
    }

    /** Put the cursor at a place, here and in the charts of the same group. */
    point(place) {
      this.at = place;
      for (const chart of groups.get(this.spec.group) || [this]) chart.mark(place);
      const rows = this.shown
        .filter((series) => series.x.includes(place))
        .map((series) => ({ look: series.look, text: `${series.name}: ${this.value(series, place)}${this.aside(series, place)}` }));
      const name = this.spec.bar && this.spec.kind === "bars"
        ? `${this.spec.x} ${short(place - this.spec.bar / 2)} to ${short(place + this.spec.bar / 2)}`
        : `${this.spec.x} ${short(place)}`;
      this.tip.show(this.x(place), name, rows);
    }

    aside(series, place) {
      return series.notes ? `, ${series.notes[series.x.indexOf(place)]}` : "";
    }

    mark(place) {
      if (!this.cursor) return;
      this.cursor.replaceChildren();
      const x = this.x(place), height = this.plot.clientHeight;
      this.cursor.append(node("line", { class: "cursor", x1: x, x2: x, y1: PAD.top, y2: height - PAD.bottom }));
      if (this.spec.kind === "bars") return;
      for (const series of this.shown) {
        const index = series.x.indexOf(place);
        if (index < 0 || series.y[index] === null) continue;
        const style = `--series: var(--${series.look})`;
        this.cursor.append(node("circle", { class: "dot", style, cx: x, cy: this.y(series.y[index]), r: 4 }));
      }
    }

    leave() {
      this.at = null;
      this.tip.hide();
      for (const chart of groups.get(this.spec.group) || [this]) {
        if (chart.cursor) chart.cursor.replaceChildren();
      }
    }

    onKey(event) {
      const places = this.places;
      const moves = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 };
      if (event.key === "Escape") { this.leave(); return; }
      if (!(event.key in moves) && event.key !== "Home" && event.key !== "End") return;
      event.preventDefault();
      const now = this.at === null ? -1 : places.indexOf(this.at);
      let next = event.key === "Home" ? 0 : event.key === "End" ? places.length - 1 : now + moves[event.key];
      next = Math.min(Math.max(next, 0), places.length - 1);
      this.point(places[next]);
      this.said.textContent = this.tip.box.innerText.replace(/\n+/g, ", ");
    }
  }

  /** A frame as it is, with one code changed, and the difference; cut out of one picture. */
  class Changed {
    constructor(box, spec) {
      this.spec = spec;
      this.text = box.querySelector("p");
      this.scale = Math.max(1, Math.floor(150 / Math.max(spec.width, spec.height)));
      this.places = {};
      for (const name of ["before", "after", "difference"]) this.places[name] = box.querySelector(`.${name}`);
      for (const place of Object.values(this.places)) {
        place.style.width = `${spec.width * this.scale}px`;
        place.style.height = `${spec.height * this.scale}px`;
      }
      this.cut(this.places.before, [[0, 0]]);
      const strongest = spec.strongest;
      this.show(strongest, spec.classes[strongest].find((k) => k !== spec.chosen[strongest]) ?? 0);
    }

    /** Pictures by row and column, laid over each other by how they differ. */
    cut(place, cells) {
      const { sheet, width, height, columns, rows } = this.spec;
      place.style.backgroundImage = cells.map(() => `url(${sheet})`).join(", ");
      place.style.backgroundSize = `${columns * width * this.scale}px ${rows * height * this.scale}px`;
      place.style.backgroundPosition = cells
        .map(([row, column]) => `${-column * width * this.scale}px ${-row * height * this.scale}px`).join(", ");
      place.style.backgroundBlendMode = cells.length > 1 ? "difference" : "normal";
    }

    show(v, k) {
      const column = this.spec.classes[v].indexOf(k), own = this.spec.chosen[v];
      const known = column >= 0;
      this.places.after.classList.toggle("unknown", !known);
      this.places.difference.classList.toggle("unknown", !known);
      if (!known) {
        this.text.textContent = `z${v} = class ${k} is hardly ever used: it was not tried.`;
        return;
      }
      const cell = [v + 1, column];
      this.cut(this.places.after, [cell]);
      this.cut(this.places.difference, [cell, [0, 0]]);
      const is = k === own ? "which it is" : `instead of class ${own}`;
      this.text.textContent = `z${v} set to class ${k}, ${is}.`;
    }
  }

  /** The classes of discrete variables: two maps, and bars for each variable. */
  class CodeMap extends Drawing {
    constructor(figure) {
      super(figure);
      this.stages = this.spec.stages;
      this.changed = this.spec.changed && new Changed(figure.querySelector(".changed"), this.spec.changed);
      this.spec = this.stages.at(-1);
      const slider = figure.querySelector("input[type=range]");
      if (slider) {
        slider.addEventListener("input", () => {
          this.spec = this.stages[Number(slider.value)];
          figure.querySelector("output").textContent = this.spec.update.toLocaleString("en");
          this.redraw();
        });
      }
      this.plot.addEventListener("pointermove", (event) => this.follow(event));
      this.plot.addEventListener("pointerleave", () => this.leave());
      this.plot.addEventListener("keydown", (event) => this.onKey(event));
      this.plot.addEventListener("blur", () => this.leave());
      this.redraw();
    }

    draw() {
      const { usage, prior } = this.spec;
      const V = usage.length, K = usage[0].length;
      const names = 30, gap = 26, width = this.plot.clientWidth;
      const bars = Math.max(90, Math.min(150, width * 0.13));
      const room = (width - names - 3 * gap - 2 * (bars + 34)) / 2;
      this.cell = Math.max(4, Math.min(26, Math.floor(room / K)));
      this.top = 40;
      this.lefts = [names, names + K * this.cell + gap];
      const height = this.top + V * this.cell + 8;
      this.plot.style.height = `${height}px`;
      const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
      const every = this.cell >= 12 ? 1 : this.cell >= 7 ? 2 : 4;
      for (let v = 0; v < V; v += every) {
        svg.append(node("text", { x: names - 6, y: this.top + (v + 0.5) * this.cell + 4, "text-anchor": "end" }, `z${v}`));
      }
      this.drawMap(svg, this.lefts[0], "after seeing (posterior)", usage);
      this.drawMap(svg, this.lefts[1], "before seeing (prior)", prior);
      const left = this.lefts[1] + K * this.cell + gap;
      const { perplexity, expected, information } = this.spec;
      this.drawBars(svg, left, bars, `classes in use, of ${K}`, perplexity, K, expected);
      this.drawBars(svg, left + bars + 34 + gap, bars, "information, nats", information, Math.log(K), null);
      this.pointed = node("rect", { class: "pointed", width: this.cell, height: this.cell, visibility: "hidden" });
      svg.append(this.pointed);
      return svg;
    }

    drawMap(svg, left, title, usage) {
      svg.append(node("text", { class: "heading", x: left, y: 12 }, title));
      const K = usage[0].length, size = this.cell - 1;
      const every = [1, 2, 4, 8, 16, 32, 64].find((n) => n * this.cell >= 24);
      for (let k = 0; k < K; k += every) {
        svg.append(node("text", { x: left + k * this.cell, y: this.top - 6 }, `${k}`));
      }
      let crosses = "";
      usage.forEach((row, v) => row.forEach((share, k) => {
        const x = left + k * this.cell, y = this.top + v * this.cell;
        const dead = share < this.spec.threshold;
        svg.append(node("rect", { class: dead ? "dead" : "empty", x, y, width: size, height: size }));
        if (dead) {
          const a = size * 0.3, b = size * 0.7;
          crosses += `M${x + a},${y + a}L${x + b},${y + b}M${x + a},${y + b}L${x + b},${y + a}`;
        } else {
          const level = 0.06 + 0.94 * Math.sqrt(share);
          svg.append(node("rect", { class: "cell", x, y, width: size, height: size, "fill-opacity": level.toFixed(3) }));
        }
      }));
      svg.append(node("path", { class: "cross", d: crosses }));
    }

    drawBars(svg, left, wide, title, values, most, ticks) {
      svg.append(node("text", { class: "heading", x: left, y: 12 }, title));
      values.forEach((value, v) => {
        const y = this.top + v * this.cell, height = this.cell - 1;
        svg.append(node("rect", { class: "empty", x: left, y, width: wide, height }));
        svg.append(node("rect", { class: "bar", style: "--series: var(--model)", x: left, y, width: (wide * value) / most, height }));
        if (ticks) svg.append(node("rect", { class: "tick", x: left + (wide * ticks[v]) / most - 1.5, y, width: 3, height }));
        if (this.cell >= 11) svg.append(node("text", { x: left + wide + 5, y: y + this.cell / 2 + 4 }, short(value)));
      });
    }

    follow(event) {
      const box = this.plot.getBoundingClientRect();
      const x = event.clientX - box.left, y = event.clientY - box.top;
      const v = Math.floor((y - this.top) / this.cell);
      const K = this.spec.usage[0].length;
      const map = x >= this.lefts[1] - 4 ? 1 : 0;
      const k = Math.floor((x - this.lefts[map]) / this.cell);
      if (v < 0 || v >= this.spec.usage.length || k < 0) { this.leave(); return; }
      this.point(v, Math.min(k, K), map);
    }

    point(v, k, map) {
      const { usage, prior, perplexity, information, threshold } = this.spec;
      const K = usage[0].length, rows = [];
      const inside = k < K;
      if (inside) {
        const percent = (share) => `${(100 * share).toPrecision(3)}%`;
        rows.push({ text: `used in ${percent(usage[v][k])} of frames${usage[v][k] < threshold ? ": dead" : ""}` });
        rows.push({ text: `expected in ${percent(prior[v][k])}` });
      }
      rows.push({ text: `z${v}: ${short(perplexity[v])} of ${K} classes in use, ${short(information[v])} nats` });
      this.pointed.setAttribute("visibility", inside ? "visible" : "hidden");
      this.pointed.setAttribute("x", this.lefts[map] + k * this.cell - 0.5);
      this.pointed.setAttribute("y", this.top + v * this.cell - 0.5);
      this.tip.show(this.lefts[map] + k * this.cell, inside ? `z${v}, class ${k}` : `z${v}`, rows);
      this.tip.box.style.top = `${this.top + (v + 1) * this.cell + 6}px`;
      this.now = [v, k, map];
      if (inside && this.changed) this.changed.show(v, k);
    }

    leave() {
      this.tip.hide();
      if (this.pointed) this.pointed.setAttribute("visibility", "hidden");
    }

    onKey(event) {
      const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
      if (event.key === "Escape") { this.leave(); return; }
      if (!(event.key in moves)) return;
      event.preventDefault();
      const [v, k, map] = this.now || [0, 0, 0];
      const [down, right] = this.now ? moves[event.key] : [0, 0];
      const clamp = (value, most) => Math.min(Math.max(value, 0), most - 1);
      this.point(clamp(v + down, this.spec.usage.length), clamp(k + right, this.spec.usage[0].length), map);
      this.said.textContent = this.tip.box.innerText.replace(/\n+/g, ", ");
    }
  }

  /** Controls below the film instead of over it: play, step by step, slower, faster. */
  function control(figure) {
    const video = figure.querySelector("video"), fps = Number(figure.dataset.fps);
    const play = figure.querySelector("button.play"), place = figure.querySelector("input");
    const output = figure.querySelector("output");
    const count = () => Math.max(1, Math.round(video.duration * fps));
    const now = () => Math.min(count() - 1, Math.floor(video.currentTime * fps + 1e-6));
    const toggle = () => { if (video.paused) video.play(); else video.pause(); };
    const tell = () => {
      if (!video.duration) return;
      place.max = count() - 1;
      place.value = now();
      output.textContent = `row ${now() + 1} of ${count()}`;
      play.textContent = video.paused ? "Play" : "Pause";
    };
    video.controls = false;
    video.addEventListener("click", toggle);
    play.addEventListener("click", toggle);
    place.addEventListener("input", () => {
      video.pause();
      video.currentTime = (Number(place.value) + 0.5) / fps;
    });
    for (const name of ["loadedmetadata", "timeupdate", "seeked", "play", "pause"]) video.addEventListener(name, tell);
    tell();
    for (const button of figure.querySelectorAll("button[data-steps]")) {
      button.addEventListener("click", () => {
        video.pause();
        const frame = now() + Number(button.dataset.steps);
        video.currentTime = (Math.min(Math.max(frame, 0), count() - 1) + 0.5) / fps;
      });
    }
    figure.querySelector("button.full").addEventListener("click", () => video.requestFullscreen());
    const speed = figure.querySelector("select");
    speed.addEventListener("change", () => { video.playbackRate = Number(speed.value); });
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    button.textContent = theme === "dark" ? "Light page" : "Dark page";
  }

  /** Mark the section that is being read in the table of contents. */
  function followReading() {
    const links = new Map([...document.querySelectorAll("nav a[href^='#']")].map((a) => [a.hash.slice(1), a]));
    const sections = [...document.querySelectorAll("main > section")];
    const update = () => {
      const read = sections.filter((section) => section.getBoundingClientRect().top < innerHeight * 0.3);
      const now = (read.at(-1) || sections[0]).id;
      for (const [id, link] of links) {
        if (id === now) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    };
    addEventListener("scroll", update, { passive: true });
    update();
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });
  for (const figure of document.querySelectorAll("figure.chart")) new Chart(figure);
  for (const figure of document.querySelectorAll("figure.codes")) new CodeMap(figure);
  for (const figure of document.querySelectorAll("figure.film")) control(figure);
  followReading();
})();
