// The Models view: a table of runs, their metrics, and differences between them.

import { $, color, fill, fit, make, number, setText } from "./dom.js";

const COLORS = ["accent", "truth", "forced", "good"];

export class Models {
  constructor(connection) {
    this.connection = connection;
    connection.addEventListener("measuring", ({ detail }) => this.onProgress(detail));
    connection.addEventListener("measured", ({ detail }) => this.onResult(detail));
    $("measure").addEventListener("click", () => this.measure());
    $("measure-stop").addEventListener("click", () => this.stop());
    window.addEventListener("resize", () => this.paint());
  }

  onHello(hello) {
    this.hello = hello;
    const rows = hello.runs.map((run, index) => {
      const box = make("input", { type: "checkbox", value: run.id, checked: index === 0, "aria-label": `Evaluate ${run.name}` });
      box.addEventListener("change", () => this.updateDatasets());
      const cells = [run.name, run.kind, run.task, run.update.toLocaleString("en"), run.latent, run.trainedOn.join(", "), run.created.slice(0, 10)];
      return make("tr", {}, make("td", {}, box), ...cells.map((cell) => make("td", {}, cell)));
    });
    $("runs").replaceChildren(...rows);
    this.updateDatasets();
  }

  get chosen() {
    return [...$("runs").querySelectorAll("input:checked")].map((box) => box.value);
  }

  // List the datasets that fit all selected runs.
  updateDatasets() {
    const runs = this.hello.runs.filter((run) => this.chosen.includes(run.id));
    const data = this.hello.datasets.filter((dataset) => runs.every((run) => run.fits.includes(dataset.id)));
    fill($("measure-data"), runs.length ? data.map((dataset) => [dataset.id, dataset.name]) : []);
    $("measure").disabled = !runs.length || !data.length || runs.length > 4;
  }

  measure() {
    const about = { runs: this.chosen, data: $("measure-data").value, windows: Number($("measure-windows").value), horizon: Number($("measure-horizon").value) };
    this.connection.send("measure", about);
    $("measure-stop").disabled = false;
    this.onProgress({ text: "Reading", done: 0, total: 1 });
  }

  stop() {
    this.connection.send("measure", { runs: [] });
    $("measure-stop").disabled = true;
    setText($("measure-text"), "Stopped.");
    $("measure-progress").value = 0;
  }

  onProgress({ text, done, total }) {
    Object.assign($("measure-progress"), { max: Math.max(1, total), value: done });
    setText($("measure-text"), total > 1 ? `${text}: ${done} of ${total} windows` : `${text} …`);
  }

  name(id) {
    return this.hello.runs.find((run) => run.id === id).name;
  }

  onResult(evaluation) {
    $("measure-stop").disabled = true;
    if (evaluation.error) {
      setText($("measure-text"), `${evaluation.error} ${evaluation.hint}`);
      return;
    }
    this.evaluation = evaluation;
    Object.assign($("measure-progress"), { max: 1, value: 1 });
    setText($("measure-text"), `${evaluation.windows} windows: ${evaluation.note}.`);
    const cards = evaluation.results.map((result, index) => this.card(result, index));
    const parts = [make("div", { class: "results" }, ...cards, this.chart(evaluation))];
    if (evaluation.differences.length) parts.push(this.table(evaluation));
    $("results").replaceChildren(...parts);
    this.paint();
  }

  card(result, index) {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = color(COLORS[index]);
    const findings = result.verdict.findings.map((finding) => make("li", { class: finding.grade }, finding.text));
    const headline = make("p", { class: `verdict ${result.verdict.grade}` }, result.verdict.headline);
    const dead = result.dead === null ? "" : `, ${(100 * result.dead).toFixed(0)} % of classes unused`;
    return make("section", { class: "panel" }, make("h2", {}, swatch, this.name(result.run)), headline, make("ul", {}, ...findings), make("p", { class: "small" }, `KL ${number(result.kl, 1)} nats, prior entropy ${number(result.entropy, 1)} nats${dead}; ${result.episodes} episodes.`));
  }

  chart(evaluation) {
    this.key = Object.keys(evaluation.results[0].obs)[0];
    const unit = evaluation.results[0].obs[this.key].image ? "PSNR" : "SNR";
    const canvas = make("canvas", { id: "chart", role: "img", "aria-label": `${unit} of predictions by step` });
    const caption = `${unit} of ${this.key} in dB, by imagined step. Higher is better. Dashed: reconstructions; gray: the last observed frame repeated; dotted: the mean frame.`;
    return make("section", { class: "panel" }, make("h2", {}, "Quality of predictions"), canvas, make("p", { class: "small" }, caption));
  }

  table(evaluation) {
    const names = evaluation.results.map((result) => this.name(result.run));
    const head = make("tr", {}, make("th", {}, ""), ...names.map((name, index) => make("th", { class: "number" }, index ? `${name}, against ${names[0]}` : name)));
    const rows = evaluation.differences.map((row) => {
      const cells = row.values.map((value, index) => {
        const outcome = index ? row.outcomes[index - 1] : "";
        return make("td", { class: `number ${outcome}` }, `${number(value)}${outcome ? `  ${outcome}` : ""}`);
      });
      return make("tr", {}, make("td", {}, row.name), ...cells);
    });
    return make("section", { class: "panel" }, make("h2", {}, "Differences, on the same windows"), make("p", { class: "small" }, "Within noise: the 95% interval of the difference includes 0. The metrics are defined in docs/inspecting.md."), make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  paint() {
    const canvas = $("chart");
    if (!canvas || !this.evaluation) return;
    const { context, width, height } = fit(canvas);
    const curves = [];
    this.evaluation.results.forEach((result, index) => {
      const obs = result.obs[this.key];
      if (!index) curves.push({ ...obs.copy, style: color("soft"), dash: [] }, { ...obs.average, style: color("soft"), dash: [2, 3] });
      curves.push({ ...obs.ceiling, style: color(COLORS[index]), dash: [6, 4] }, { ...obs.score, style: color(COLORS[index]), dash: [], strong: true });
    });
    draw(context, width, height, curves);
  }
}

function draw(context, width, height, curves) {
  const all = curves.flatMap((curve) => curve.value).filter((value) => value !== null);
  const low = Math.floor(Math.min(...all)), high = Math.ceil(Math.max(...all)) + 0.001;
  const steps = curves[0].value.length;
  const x = (at) => 30 + (at / Math.max(1, steps - 1)) * (width - 40);
  const y = (value) => height - 18 - ((value - low) / (high - low)) * (height - 26);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = color("soft");
  context.strokeStyle = color("line");
  const every = Math.max(1, Math.ceil((high - low) / 5));
  for (let value = low; value <= high; value += every) {
    context.fillText(value.toFixed(0), 4, y(value) + 4);
    context.beginPath();
    context.moveTo(30, y(value));
    context.lineTo(width - 8, y(value));
    context.stroke();
  }
  for (const at of [0, Math.floor((steps - 1) / 2), steps - 1]) context.fillText(String(at + 1), x(at) - 4, height - 3);
  for (const curve of curves) {
    if (curve.strong) {
      context.fillStyle = curve.style;
      context.globalAlpha = 0.15;
      context.beginPath();
      curve.high.forEach((value, at) => context[at ? "lineTo" : "moveTo"](x(at), y(value)));
      for (let at = steps - 1; at >= 0; at--) context.lineTo(x(at), y(curve.low[at]));
      context.fill();
      context.globalAlpha = 1;
    }
    context.strokeStyle = curve.style;
    context.setLineDash(curve.dash);
    context.lineWidth = curve.strong ? 2 : 1.2;
    context.beginPath();
    curve.value.forEach((value, at) => context[at ? "lineTo" : "moveTo"](x(at), y(value)));
    context.stroke();
  }
  context.setLineDash([]);
}
