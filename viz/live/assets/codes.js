// Codes of the latent state: a row for each variable, a column for each class. A click forces a
// code.

import { $, color, fit, setText } from "./dom.js";

export class Codes {
  constructor(onForce) {
    this.canvas = $("codes");
    this.forced = {};
    this.onForce = onForce;
    this.canvas.addEventListener("click", (event) => {
      const at = this.at(event);
      if (at) this.toggle(at.variable, at.code);
    });
    this.canvas.addEventListener("pointermove", (event) => this.describe(this.at(event)));
    this.canvas.addEventListener("pointerleave", () => this.describe(null));
    $("force").addEventListener("click", () => {
      const inputs = [$("force-variable"), $("force-class")];
      if (inputs.every((input) => input.reportValidity())) this.toggle(...inputs.map((input) => Number(input.value)), true);
    });
    $("release").addEventListener("click", () => this.release());
  }

  release() {
    this.set({});
  }

  clear() {
    this.forced = {};
  }

  set(forced) {
    this.forced = forced;
    this.onForce(forced);
    this.paint();
    this.describe(this.hovered ?? null);
  }

  toggle(variable, code, always = false) {
    if (!this.prior) return;
    const [variables, classes] = this.prior.shape;
    if (variable >= variables || code >= classes) return;
    const forced = { ...this.forced };
    if (forced[variable] === code && !always) delete forced[variable];
    else forced[variable] = code;
    this.set(forced);
  }

  // Frames do not set `forced`: a frame in transit may be older than the last click.
  show(prior, codes) {
    this.prior = prior;
    this.codes = codes;
    this.paint();
    if (this.hovered) this.describe(this.hovered);
  }

  paint() {
    const { context, width, height } = fit(this.canvas);
    $("release").disabled = Object.keys(this.forced).length === 0;
    if (!this.prior) {
      context.fillStyle = color("soft");
      context.font = "12px system-ui, sans-serif";
      context.fillText("No discrete codes.", 10, 20);
      return;
    }
    const [variables, classes] = this.prior.shape;
    $("force-variable").max = variables - 1;
    $("force-class").max = classes - 1;
    const w = width / classes, h = height / variables;
    context.fillStyle = color("stage");
    context.fillRect(0, 0, width, height);
    context.fillStyle = color("accent");
    for (let v = 0; v < variables; v++) {
      for (let k = 0; k < classes; k++) {
        const level = this.prior.pixels[v * classes + k];
        if (level < 6) continue;
        context.globalAlpha = (level / 255) * 0.8;
        context.fillRect(k * w, v * h, w - 0.5, h - 0.5);
      }
    }
    context.globalAlpha = 1;
    for (let v = 0; v < variables; v++) {
      const forced = this.forced[v] !== undefined;
      const k = forced ? this.forced[v] : this.codes[v];
      const inset = forced ? 0 : Math.min(w, h) * 0.22;
      context.fillStyle = color(forced ? "forced" : "ink");
      context.fillRect(k * w + inset, v * h + inset, w - 2 * inset - 0.5, h - 2 * inset - 0.5);
    }
  }

  at(event) {
    if (!this.prior) return null;
    const box = this.canvas.getBoundingClientRect();
    const [variables, classes] = this.prior.shape;
    const variable = Math.floor(((event.clientY - box.top) / box.height) * variables);
    const code = Math.floor(((event.clientX - box.left) / box.width) * classes);
    return variable >= 0 && variable < variables && code >= 0 && code < classes ? { variable, code } : null;
  }

  describe(at) {
    this.hovered = at;
    const list = Object.entries(this.forced).map(([v, k]) => `z${v} = ${k}`).join(", ");
    const general = list ? `Forced: ${list}.` : "Color: prior probability; ■: the sampled class.";
    if (!at || !this.prior) return setText($("code-text"), general);
    const level = this.prior.pixels[at.variable * this.prior.shape[1] + at.code] / 255;
    const forced = this.forced[at.variable] === at.code ? ", forced" : "";
    const sampled = !forced && this.codes[at.variable] === at.code ? ", sampled" : "";
    return setText($("code-text"), `z${at.variable}, class ${at.code}: prior probability ${(100 * level * level).toFixed(0)} %${sampled}${forced}.`);
  }
}
