/* The usage of codes, and a frame with one code set to another class. */
/** The original frame, the frame with one code set, and the difference, cropped from one sheet. */
class InterventionView {
  constructor(box, spec) {
    this.spec = spec;
    this.text = box.querySelector("p");
    this.scale = Math.max(1, Math.floor(150 / Math.max(spec.width, spec.height)));
    this.crops = {};
    for (const name of ["before", "after", "difference"]) this.crops[name] = box.querySelector(`.${name}`);
    for (const crop of Object.values(this.crops)) {
      crop.style.width = `${spec.width * this.scale}px`;
      crop.style.height = `${spec.height * this.scale}px`;
    }
    this.cut(this.crops.before, [[0, 0]]);
    const strongest = spec.strongest;
    this.show(strongest, spec.classes[strongest].find((k) => k !== spec.chosen[strongest]) ?? 0);
  }

  /** Show cells (row, column) of the sheet; of two cells, their difference. */
  cut(crop, cells) {
    const { sheet, width, height, columns, rows } = this.spec;
    crop.style.backgroundImage = cells.map(() => `url(${sheet})`).join(", ");
    crop.style.backgroundSize = `${columns * width * this.scale}px ${rows * height * this.scale}px`;
    crop.style.backgroundPosition = cells
      .map(([row, column]) => `${-column * width * this.scale}px ${-row * height * this.scale}px`).join(", ");
    crop.style.backgroundBlendMode = cells.length > 1 ? "difference" : "normal";
  }

  show(v, k) {
    const column = this.spec.classes[v].indexOf(k), own = this.spec.chosen[v];
    const available = column >= 0;
    this.crops.after.classList.toggle("unavailable", !available);
    this.crops.difference.classList.toggle("unavailable", !available);
    if (!available) {
      this.text.textContent = `Class ${k} of z${v} is rarely used and was not decoded.`;
      return;
    }
    const cell = [v + 1, column];
    this.cut(this.crops.after, [cell]);
    this.cut(this.crops.difference, [cell, [0, 0]]);
    const relation = k === own ? "its own class" : `instead of class ${own}`;
    this.text.textContent = `z${v} set to class ${k}, ${relation}.`;
  }
}

const LABEL = 44; // width of the number beside a bar, in pixels

/** Maps of class frequencies of posterior and prior, and bars of each variable. */
class CodeMap extends Drawing {
  constructor(figure) {
    super(figure);
    this.checkpoints = this.spec.checkpoints;
    this.intervention = this.spec.intervention && new InterventionView(figure.querySelector(".intervention"), this.spec.intervention);
    this.spec = this.checkpoints.at(-1);
    const slider = figure.querySelector("input[type=range]");
    if (slider) {
      slider.addEventListener("input", () => {
        this.spec = this.checkpoints[Number(slider.value)];
        figure.querySelector("output").textContent = this.spec.update.toLocaleString("en");
        this.redraw();
      });
    }
    this.plot.addEventListener("pointermove", (event) => this.onPointer(event));
    this.plot.addEventListener("pointerleave", () => this.clearSelection());
    this.plot.addEventListener("keydown", (event) => this.onKey(event));
    this.plot.addEventListener("blur", () => this.clearSelection());
    this.redraw();
  }

  draw() {
    const { usage, prior } = this.spec;
    const V = usage.length, K = usage[0].length;
    const names = 30, gap = 26, width = this.plot.clientWidth;
    const bars = Math.max(90, Math.min(150, width * 0.13));
    const available = (width - names - 3 * gap - 2 * (bars + LABEL)) / 2;
    this.cell = Math.max(4, Math.min(26, Math.floor(available / K)));
    this.top = 40;
    this.lefts = [names, names + K * this.cell + gap];
    const height = this.top + V * this.cell + 8;
    this.plot.style.height = `${height}px`;
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const every = this.cell >= 12 ? 1 : this.cell >= 7 ? 2 : 4;
    for (let v = 0; v < V; v += every) {
      svg.append(node("text", { x: names - 6, y: this.top + (v + 0.5) * this.cell + 4, "text-anchor": "end" }, `z${v}`));
    }
    this.drawMap(svg, this.lefts[0], "posterior", usage);
    this.drawMap(svg, this.lefts[1], "prior", prior);
    const left = this.lefts[1] + K * this.cell + gap;
    const { perplexity, expected, information } = this.spec;
    this.drawBars(svg, left, bars, `perplexity, of ${K}`, perplexity, K, expected);
    this.drawBars(svg, left + bars + LABEL + gap, bars, "information, nats", information, Math.log(K), null);
    this.outline = node("rect", { class: "outline", width: this.cell, height: this.cell, visibility: "hidden" });
    svg.append(this.outline);
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

  drawBars(svg, left, barWidth, title, values, most, ticks) {
    svg.append(node("text", { class: "heading", x: left, y: 12 }, title));
    values.forEach((value, v) => {
      const y = this.top + v * this.cell, height = this.cell - 1;
      svg.append(node("rect", { class: "empty", x: left, y, width: barWidth, height }));
      svg.append(node("rect", { class: "bar", style: "--series: var(--model)", x: left, y, width: (barWidth * value) / most, height }));
      if (ticks) svg.append(node("rect", { class: "tick", x: left + (barWidth * ticks[v]) / most - 1.5, y, width: 3, height }));
      if (this.cell >= 11) svg.append(node("text", { x: left + barWidth + 5, y: y + this.cell / 2 + 4 }, formatNumber(value)));
    });
  }

  onPointer(event) {
    const box = this.plot.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const v = Math.floor((y - this.top) / this.cell);
    const K = this.spec.usage[0].length;
    const map = x >= this.lefts[1] - 4 ? 1 : 0;
    const k = Math.floor((x - this.lefts[map]) / this.cell);
    if (v < 0 || v >= this.spec.usage.length || k < 0) { this.clearSelection(); return; }
    this.select(v, Math.min(k, K), map);
  }

  select(v, k, map) {
    const { usage, prior, perplexity, information, threshold } = this.spec;
    const K = usage[0].length, rows = [];
    const inside = k < K;
    if (inside) {
      const percent = (share) => `${(100 * share).toPrecision(3)}%`;
      rows.push({ text: `used in ${percent(usage[v][k])} of frames${usage[v][k] < threshold ? ": dead" : ""}` });
      rows.push({ text: `prior probability ${percent(prior[v][k])}` });
    }
    rows.push({ text: `z${v}: perplexity ${formatNumber(perplexity[v])} of ${K}, information ${formatNumber(information[v])} nats` });
    this.outline.setAttribute("visibility", inside ? "visible" : "hidden");
    this.outline.setAttribute("x", this.lefts[map] + k * this.cell - 0.5);
    this.outline.setAttribute("y", this.top + v * this.cell - 0.5);
    this.tooltip.show(this.lefts[map] + k * this.cell, inside ? `z${v}, class ${k}` : `z${v}`, rows);
    this.tooltip.box.style.top = `${this.top + (v + 1) * this.cell + 6}px`;
    this.selected = [v, k, map];
    if (inside && this.intervention) this.intervention.show(v, k);
  }

  clearSelection() {
    this.tooltip.hide();
    if (this.outline) this.outline.setAttribute("visibility", "hidden");
  }

  onKey(event) {
    const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    if (event.key === "Escape") { this.clearSelection(); return; }
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [v, k, map] = this.selected || [0, 0, 0];
    const [down, right] = this.selected ? moves[event.key] : [0, 0];
    const clamp = (value, most) => Math.min(Math.max(value, 0), most - 1);
    this.select(clamp(v + down, this.spec.usage.length), clamp(k + right, this.spec.usage[0].length), map);
    this.announcement.textContent = this.tooltip.box.innerText.replace(/\n+/g, ", ");
  }
}
