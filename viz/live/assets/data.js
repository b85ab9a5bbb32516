// The Data view: a filtered list of episodes, and the steps of the selected one.

import { $, color, fill, fit, make, number, setText } from "./dom.js";

const PAGE = 24, SPRITES = 64, COLUMNS = 8, RATE = 15;

async function get(path) {
  const response = await fetch(path);
  const body = await response.json();
  if (!response.ok) throw new Error(body.message ?? `The server returned status ${response.status}.`);
  return body;
}

export class Browser {
  constructor(onDream) {
    this.onDream = onDream;
    this.offset = 0;
    this.step = 0;
    this.sheets = new Map();
    const on = (id, type, act) => $(id).addEventListener(type, act);
    on("browse", "change", () => this.open($("browse").value));
    on("filters", "input", () => { this.offset = 0; this.list(); });
    on("filters", "submit", (event) => event.preventDefault());
    on("previous-page", "click", () => { this.offset = Math.max(0, this.offset - PAGE); this.list(); });
    on("next-page", "click", () => { this.offset += PAGE; this.list(); });
    on("episode-scrub", "input", () => this.goto(Number($("episode-scrub").value)));
    on("episode-back", "click", () => this.goto(this.step - 1));
    on("episode-forward", "click", () => this.goto(this.step + 1));
    on("episode-play", "click", () => this.play(!this.timer));
    on("dream-here", "click", () => this.onDream($("dream-run").value, this.data, this.episode.index, this.step));
    on("episodes", "keydown", (event) => this.move(event));
    new ResizeObserver(() => this.paint()).observe($("episode-frame"));
  }

  onHello(hello) {
    this.hello = hello;
    fill($("browse"), hello.datasets.map((dataset) => [dataset.id, dataset.name]));
    if (!hello.datasets.length) {
      setText($("overview"), "No datasets. Pass some on the command line: wmtk viz serve RUN DATA");
    }
  }

  // Called when the view becomes visible: reloads the dataset, which may have grown.
  enter() {
    if (this.hello?.datasets.length) this.open($("browse").value);
  }

  leave() {
    this.play(false);
  }

  async open(id) {
    const changed = this.data !== id;
    this.data = id;
    if (changed) this.offset = 0;
    const about = await get(`data/${id}`);
    const policies = about.provenance.map((group) => `${group.policy || "unknown"} (${group.episodes})`).join(", ");
    const returns = about.returns ? `, return ${number(about.returns.mean, 2)} ± ${number(about.returns.std, 2)}` : "";
    setText($("overview"), `${about.task}: ${about.episodes} episodes, ${about.steps.toLocaleString("en")} steps${returns}. Policies: ${policies || "–"}. Version ${about.version}.`);
    const runs = this.hello.runs.filter((run) => run.fits.includes(id));
    fill($("dream-run"), runs.map((run) => [run.id, run.name]));
    await this.list();
    if (changed || !this.episode) await this.choose(this.first ?? 0);
    $("dream-here").disabled = !runs.length || !this.episode;
  }

  async list() {
    const query = new URLSearchParams({ offset: this.offset, limit: PAGE });
    for (const [name, id] of [["min_return", "min-return"], ["max_return", "max-return"], ["min_length", "min-length"], ["max_length", "max-length"], ["ended", "ended"]]) {
      if ($(id).value !== "") query.set(name, $(id).value);
    }
    const order = $("order").value;
    query.set("order", order.replace("-", ""));
    query.set("descending", order.startsWith("-"));
    const request = (this.request = query.toString());
    const page = await get(`data/${this.data}/episodes?${query}`);
    if (this.request !== request) return; // the filters have changed meanwhile
    const images = this.hello.datasets.find((dataset) => dataset.id === this.data).images;
    this.first = page.episodes[0]?.index;
    $("episodes").replaceChildren(...page.episodes.map((row) => this.row(row, images.length > 0)));
    const last = Math.min(page.total, this.offset + PAGE);
    setText($("page-text"), page.total ? `${this.offset + 1} to ${last} of ${page.total}` : "no episode matches the filters");
    $("previous-page").disabled = this.offset === 0;
    $("next-page").disabled = last >= page.total;
    this.mark();
  }

  row(episode, hasImages) {
    const text = make("span", { class: "text" }, `Episode ${episode.index}`, make("small", {}, `return ${number(episode.return, 2)}, ${episode.length} steps, ${episode.end}`));
    const thumbnail = hasImages ? [make("img", { src: `data/${this.data}/episodes/${episode.index}/thumbnail.png`, alt: "", loading: "lazy" })] : [];
    const node = make("div", { class: "episode", role: "option", id: `episode-${episode.index}` }, ...thumbnail, text);
    node.addEventListener("click", () => this.choose(episode.index));
    return node;
  }

  move(event) {
    const change = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!change) return;
    event.preventDefault();
    const rows = [...$("episodes").children];
    const now = rows.findIndex((row) => row.id === `episode-${this.episode?.index}`);
    const next = rows[Math.min(Math.max(now + change, 0), rows.length - 1)];
    if (next) {
      next.scrollIntoView({ block: "nearest" });
      this.choose(Number(next.id.split("-")[1]));
    }
  }

  mark() {
    for (const row of $("episodes").children) {
      row.setAttribute("aria-selected", String(row.id === `episode-${this.episode?.index}`));
    }
    if (this.episode) $("episodes").setAttribute("aria-activedescendant", `episode-${this.episode.index}`);
  }

  async choose(index) {
    this.play(false);
    const chosen = (this.chosen = `data/${this.data}/episodes/${index}`);
    const episode = await get(chosen);
    if (this.chosen !== chosen) return; // another episode was selected meanwhile
    this.episode = episode;
    this.sheets.clear();
    let total = 0;
    this.returns = this.episode.rewards.map((reward) => (total += reward));
    $("episode-scrub").max = this.episode.last;
    const { length, end, seed, id, provenance } = this.episode;
    setText($("episode-title"), `Episode ${index}`);
    setText($("episode-facts"), `return ${number(this.episode.return, 2)}, ${length} steps, ${end}`);
    const facts = { policy: provenance.policy || "unknown", environment: provenance.env || "unknown", checkpoint: provenance.checkpoint || "none", code: provenance.code || "unknown", seed: seed ?? "none", id };
    $("provenance").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
    $("dream-here").disabled = !$("dream-run").options.length;
    this.mark();
    this.goto(0);
  }

  goto(step) {
    if (!this.episode) return;
    this.step = Math.min(Math.max(step, 0), this.episode.last);
    $("episode-scrub").value = this.step;
    const action = this.episode.actions[this.step] || "reset";
    setText($("episode-now"), `step ${this.step} of ${this.episode.length}, action: ${action}, reward ${number(this.episode.rewards[this.step], 2)}, return so far ${number(this.returns[this.step], 2)}`);
    $("episode-frame").setAttribute("aria-label", `Step ${this.step}, action ${action}`);
    this.paint();
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => this.next(), 1000 / RATE) : null;
    setText($("episode-play"), on ? "Pause" : "▶ Play");
  }

  next() {
    if (this.step >= this.episode.last) return this.play(false);
    return this.goto(this.step + 1);
  }

  // The image with the frames around a step; each is fetched once.
  sheet(step) {
    const first = Math.floor(step / SPRITES) * SPRITES;
    if (!this.sheets.has(first)) {
      const image = new Image();
      image.onload = () => this.paint();
      image.src = `data/${this.data}/episodes/${this.episode.index}/frames.png?first=${first}`;
      this.sheets.set(first, image);
      for (const old of this.sheets.keys()) if (this.sheets.size > 6 && old !== first) this.sheets.delete(old);
    }
    return this.sheets.get(first);
  }

  paint() {
    const episode = this.episode;
    const { context, width, height } = fit($("episode-frame"));
    if (!episode) return;
    if (episode.image !== null) {
      const sheet = this.sheet(this.step);
      if (this.step % SPRITES > SPRITES / 2 && this.step + SPRITES <= episode.last) this.sheet(this.step + SPRITES);
      if (sheet.complete && sheet.naturalWidth) this.drawFrame(context, sheet, width, height);
    } else {
      this.lanes(context, width, height);
    }
    this.rewards();
  }

  drawFrame(context, sheet, width, height) {
    const side = sheet.naturalWidth / COLUMNS;
    const count = Math.min(SPRITES, this.episode.length + 1 - Math.floor(this.step / SPRITES) * SPRITES);
    const tall = sheet.naturalHeight / Math.ceil(count / COLUMNS);
    const at = this.step % SPRITES;
    const scale = Math.min(width / side, height / tall);
    const [w, h] = [side * scale, tall * scale];
    context.drawImage(sheet, (at % COLUMNS) * side, Math.floor(at / COLUMNS) * tall, side, tall, (width - w) / 2, (height - h) / 2, w, h);
  }

  lanes(context, width, height) {
    const tall = height / Math.max(1, this.episode.lanes.length);
    context.font = "11px system-ui, sans-serif";
    this.episode.lanes.forEach(({ name, values }, index) => {
      line(context, values, 0, index * tall + 14, width, tall - 18, color("accent"));
      context.fillStyle = color("soft");
      context.fillText(name, 4, index * tall + 11);
    });
    cursor(context, this.step, this.episode.last, width, height);
  }

  rewards() {
    const { context, width, height } = fit($("episode-rewards"));
    context.font = "11px system-ui, sans-serif";
    line(context, this.returns, 0, 14, width, height - 18, color("accent"));
    context.fillStyle = color("soft");
    context.fillText("return so far", 4, 11);
    this.episode.rewards.forEach((reward, step) => {
      if (!reward) return;
      context.fillStyle = color(reward > 0 ? "good" : "bad");
      context.fillRect((step / Math.max(1, this.episode.last)) * width, height - 5, 2, 5);
    });
    cursor(context, this.step, this.episode.last, width, height);
  }
}

function line(context, values, left, top, width, height, style) {
  const low = Math.min(...values), high = Math.max(...values);
  const scale = high > low ? height / (high - low) : 0;
  context.strokeStyle = style;
  context.lineWidth = 1.4;
  context.beginPath();
  values.forEach((value, index) => {
    const x = left + (index / Math.max(1, values.length - 1)) * width;
    context[index ? "lineTo" : "moveTo"](x, top + height - (value - low) * scale);
  });
  context.stroke();
}

function cursor(context, step, last, width, height) {
  context.fillStyle = color("ink");
  context.fillRect((step / Math.max(1, last)) * (width - 1), 0, 1, height);
}
