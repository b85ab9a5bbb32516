/* Curves, points and bars that answer to the pointer and to arrow keys. */
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
