/* Line, scatter and bar charts with a cursor for the pointer and for arrow keys. */
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
    this.plot.addEventListener("pointermove", (event) => this.onPointer(event));
    this.plot.addEventListener("pointerleave", () => this.clearCursor());
    this.plot.addEventListener("blur", () => this.clearCursor());
    this.plot.addEventListener("keydown", (event) => this.onKey(event));
    this.redraw();
  }

  get visible() { return this.spec.series.filter((series) => !this.hidden.has(series.name)); }

  get positions() {
    const all = new Set(this.visible.flatMap((series) => series.x));
    return [...all].sort((a, b) => a - b);
  }

  addLegend() {
    const legend = this.figure.querySelector(".legend");
    if (this.spec.series.length < 2) return;
    for (const series of this.spec.series) {
      const button = html(
        "button",
        { type: "button", class: series.dashed ? "dashed" : "", style: `--series: var(--${series.color})` },
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

  /** Create the table of numbers when it is opened for the first time. */
  addTable() {
    const details = this.figure.querySelector("details");
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("table")) return;
      const table = html("table"), head = html("tr", {}, html("th", {}, this.spec.x_label));
      for (const series of this.spec.series) head.append(html("th", { class: "number" }, series.name));
      const body = html("tbody");
      const positions = [...new Set(this.spec.series.flatMap((s) => s.x))].sort((a, b) => a - b);
      for (const position of positions) {
        const row = html("tr", {}, html("th", {}, formatNumber(position)));
        for (const series of this.spec.series) {
          row.append(html("td", { class: "number" }, this.value(series, position)));
        }
        body.append(row);
      }
      table.append(html("thead", {}, head), body);
      details.append(html("div", { class: "scroll", tabindex: "0" }, table));
    });
  }

  value(series, position) {
    const index = series.x.indexOf(position);
    if (index < 0 || series.y[index] === null) return "–";
    const text = formatNumber(series.y[index]);
    if (!series.low || series.low[index] === null) return text;
    return `${text} (${formatNumber(series.low[index])} to ${formatNumber(series.high[index])})`;
  }

  /** The range of the vertical axis: all values, and interval bounds that are not extreme. */
  limits() {
    const known = (values) => values.filter((v) => v !== null && (!this.spec.log || v > 0));
    const values = this.visible.flatMap((series) => known(series.y));
    if (this.spec.zero) values.push(0);
    for (const rule of this.spec.rules) values.push(rule.y);
    if (!values.length) return [0, 1];
    let low = Math.min(...values), high = Math.max(...values);
    if (this.spec.log) return low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1];
    const margin = Math.max(high - low, 1e-9);
    for (const series of this.visible) {
      for (const bound of known([...(series.low || []), ...(series.high || [])])) {
        if (bound > low - margin && bound < high + margin) {
          low = Math.min(low, bound);
          high = Math.max(high, bound);
        }
      }
    }
    const padding = 0.06 * (high - low) || 0.5;
    const floor = this.spec.kind === "bars" && low >= 0 ? 0 : low - padding;
    return [floor, high + padding];
  }

  scales() {
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    const [low, high] = this.limits();
    const positions = this.spec.series.flatMap((series) => series.x);
    let first = Math.min(...positions), last = Math.max(...positions);
    if (this.spec.kind === "bars") {
      first -= this.spec.bar_width / 2;
      last += this.spec.bar_width / 2;
    }
    if (this.spec.x_range) [first, last] = this.spec.x_range;
    if (first === last) [first, last] = [first - 1, last + 1];
    const inner = width - PAD.left - PAD.right, tall = height - PAD.top - PAD.bottom;
    const scale = this.spec.log ? Math.log : (value) => value;
    this.x = (position) => PAD.left + ((position - first) / (last - first)) * inner;
    this.y = (value) => {
      const share = (scale(high) - scale(Math.min(Math.max(value, low), high))) / (scale(high) - scale(low));
      return PAD.top + share * tall;
    };
    return { width, height, low, high, first, last, inner, tall };
  }

  draw() {
    const box = this.scales();
    const svg = node("svg", { viewBox: `0 0 ${box.width} ${box.height}`, "aria-hidden": "true" });
    this.drawAxes(svg, box);
    for (const extent of this.spec.extents) this.drawExtent(svg, extent, box);
    for (const series of this.visible) {
      if (this.spec.kind === "bars") this.drawBars(svg, series, box);
      else this.drawCurve(svg, series);
    }
    this.cursor = node("g");
    svg.append(this.cursor);
    return svg;
  }

  drawAxes(svg, { width, height, low, high, first, last, inner }) {
    const bottom = height - PAD.bottom;
    const values = this.spec.log ? logTicks(low, high) : roundNumbers(low, high, 5);
    for (const value of values) {
      const y = this.y(value), zero = value === 0 && this.spec.zero;
      svg.append(node("line", { class: zero ? "zero" : "grid", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }));
      svg.append(node("text", { x: PAD.left - 7, y: y + 4, "text-anchor": "end" }, formatNumber(value)));
    }
    const count = Math.max(2, Math.floor(inner / 75));
    const integers = this.spec.integers;
    for (const position of roundNumbers(first, last, count)) {
      if (integers && !Number.isInteger(position)) continue;
      svg.append(node("line", { class: "axis", x1: this.x(position), x2: this.x(position), y1: bottom, y2: bottom + 4 }));
      svg.append(node("text", { x: this.x(position), y: bottom + 17, "text-anchor": "middle" }, formatNumber(position)));
    }
    svg.append(node("line", { class: "axis", x1: PAD.left, x2: width - PAD.right, y1: bottom, y2: bottom }));
    svg.append(node("text", { x: width - PAD.right, y: height - 3, "text-anchor": "end" }, this.spec.x_label));
    svg.append(node("text", { x: 0, y: 9 }, this.spec.y_label));
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

  /** A labelled region from the left end of the axis. */
  drawExtent(svg, extent, { height }) {
    const left = PAD.left, right = this.x(extent.x), bottom = height - PAD.bottom;
    if (right <= left) return;
    svg.append(node("rect", { class: "extent", x: left, y: PAD.top, width: right - left, height: bottom - PAD.top }));
    svg.append(node("line", { class: "extent-edge", x1: right, x2: right, y1: PAD.top, y2: bottom }));
    const labelLeft = right + 170 > this.plot.clientWidth;
    svg.append(node("text", {
      class: "extent-name", x: labelLeft ? right - 5 : right + 5, y: PAD.top + 13,
      "text-anchor": labelLeft ? "end" : "start",
    }, extent.text));
  }

  drawBars(svg, series) {
    const floor = this.y(0);
    series.x.forEach((position, index) => {
      const value = series.y[index];
      if (value === null) return;
      const left = this.x(position - this.spec.bar_width / 2), right = this.x(position + this.spec.bar_width / 2);
      const top = this.y(value);
      svg.append(node("rect", {
        class: "bar", style: `--series: var(--${series.color})`, x: left + 0.5,
        width: Math.max(1, right - left - 1), y: Math.min(top, floor), height: Math.abs(floor - top),
      }));
    });
  }

  drawCurve(svg, series) {
    const group = node("g", { class: series.dashed ? "series dashed" : "series", style: `--series: var(--${series.color})` });
    const finite = series.x.map((_, i) => i).filter((i) => series.y[i] !== null);
    if (series.low) {
      const known = finite.filter((i) => series.low[i] !== null);
      if (known.length > 1) {
        const upper = known.map((i) => `${this.x(series.x[i])},${this.y(series.high[i])}`);
        const lower = known.reverse().map((i) => `${this.x(series.x[i])},${this.y(series.low[i])}`);
        group.append(node("path", { class: "band", d: `M${upper.join("L")}L${lower.join("L")}Z` }));
      }
    }
    let path = "", open = false;
    series.x.forEach((position, i) => {
      if (series.y[i] === null) { open = this.spec.kind !== "lines" ? open : false; return; }
      path += `${open ? "L" : "M"}${this.x(position)},${this.y(series.y[i])}`;
      open = true;
    });
    if (!series.scatter) group.append(node("path", { class: "curve", d: path }));
    if (this.spec.kind === "points" || finite.length < 3) {
      for (const i of finite) {
        const r = series.weight ? 2.5 + 5.5 * Math.sqrt(series.weight[i]) : 3.5;
        group.append(node("circle", { class: "dot", cx: this.x(series.x[i]), cy: this.y(series.y[i]), r }));
      }
    }
    svg.append(group);
  }

  onPointer(event) {
    if (!this.x) return;
    const at = event.clientX - this.plot.getBoundingClientRect().left;
    const positions = this.positions;
    if (!positions.length) return;
    let best = positions[0];
    for (const position of positions) {
      if (Math.abs(this.x(position) - at) < Math.abs(this.x(best) - at)) best = position;
    }
    this.moveCursor(best);
  }

  /** Move the cursor of all charts of the group, and show the values of this chart. */
  moveCursor(position) {
    this.at = position;
    for (const chart of groups.get(this.spec.group) || [this]) chart.drawCursor(position);
    const rows = this.visible
      .filter((series) => series.x.includes(position))
      .map((series) => ({ color: series.color, text: `${series.name}: ${this.value(series, position)}${this.note(series, position)}` }));
    const name = this.spec.bar_width && this.spec.kind === "bars"
      ? `${this.spec.x_label} ${formatNumber(position - this.spec.bar_width / 2)} to ${formatNumber(position + this.spec.bar_width / 2)}`
      : `${this.spec.x_label} ${formatNumber(position)}`;
    this.tooltip.show(this.x(position), name, rows);
  }

  note(series, position) {
    return series.notes ? `, ${series.notes[series.x.indexOf(position)]}` : "";
  }

  drawCursor(position) {
    if (!this.cursor) return;
    this.cursor.replaceChildren();
    const x = this.x(position), height = this.plot.clientHeight;
    this.cursor.append(node("line", { class: "cursor", x1: x, x2: x, y1: PAD.top, y2: height - PAD.bottom }));
    if (this.spec.kind === "bars") return;
    for (const series of this.visible) {
      const index = series.x.indexOf(position);
      if (index < 0 || series.y[index] === null) continue;
      const style = `--series: var(--${series.color})`;
      this.cursor.append(node("circle", { class: "dot", style, cx: x, cy: this.y(series.y[index]), r: 4 }));
    }
  }

  clearCursor() {
    this.at = null;
    this.tooltip.hide();
    for (const chart of groups.get(this.spec.group) || [this]) {
      if (chart.cursor) chart.cursor.replaceChildren();
    }
  }

  onKey(event) {
    const positions = this.positions;
    const moves = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 };
    if (event.key === "Escape") { this.clearCursor(); return; }
    if (!(event.key in moves) && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    const current = this.at === null ? -1 : positions.indexOf(this.at);
    let next = event.key === "Home" ? 0 : event.key === "End" ? positions.length - 1 : current + moves[event.key];
    next = Math.min(Math.max(next, 0), positions.length - 1);
    this.moveCursor(positions[next]);
    this.announcement.textContent = this.tooltip.box.innerText.replace(/\n+/g, ", ");
  }
}
