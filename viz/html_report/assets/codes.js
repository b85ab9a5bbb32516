/* How codes are used, and what a frame becomes when one of them is changed. */
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
