// The Play view: start, playback, actions, and what is drawn at each step.

import { $, fill, number, setText } from "./dom.js";
import { Codes } from "./codes.js";
import { Keys } from "./keys.js";
import { Timeline } from "./timeline.js";
import { Plots } from "./plots.js";
import { Stage, panes } from "./stage.js";

const SOURCES = ["data", "seed", "real"];
const ACTING = "Hold a key to act; playback starts.";

export class Player {
  constructor(connection) {
    this.connection = connection;
    this.settings = { playing: false, actor: "person", speed: 15, temperature: 1, futures: 1 };
    this.started = null;
    this.track = { start: 0, branch: 0, first: 0, rows: [] };
    this.step = 0;
    this.stage = new Stage($("stage"));
    this.plots = new Plots();
    this.codes = new Codes((codes) => connection.send("force", { codes }));
    this.timeline = new Timeline((branch, step) => this.goto(branch, step));
    this.keys = new Keys((held, values) => connection.send("keys", { held, values }), this.stage);
    connection.addEventListener("started", ({ detail }) => this.onStarted(detail));
    connection.addEventListener("state", ({ detail }) => this.onState(detail));
    connection.addEventListener("rows", ({ detail }) => this.onRows(detail));
    connection.addEventListener("frame", ({ detail }) => this.onFrame(detail));
    connection.addEventListener("note", ({ detail }) => this.note(detail.text));
    connection.addEventListener("error", ({ detail }) => this.note(`${detail.message} ${detail.hint}`, true));
    connection.addEventListener("recorded", ({ detail }) => this.onRecorded(detail));
    this.listen();
  }

  // --- starting ---

  onHello(hello) {
    this.hello = hello;
    fill($("run"), hello.runs.map((run) => [run.id, `${run.name} (${run.kind})`]));
    $("record-panel").hidden = hello.record === null;
    $("record").checked = hello.record !== null;
    if (hello.record) this.onRecorded({ ...hello.record, saved: 0, steps: 0 });
    this.updateSources();
    const request = this.started?.request; // after a lost connection, restart the same session
    if (request) this.connection.send("start", request);
    else if (hello.human || hello.runs.length) this.start();
    else this.note("No models. The Data view shows the datasets.");
  }

  get run() {
    return this.hello.runs.find((run) => run.id === $("run").value);
  }

  // List the datasets and enable the sources that fit the selected run.
  updateSources() {
    const run = this.run;
    const human = this.hello.human && !run;
    const data = this.hello.datasets.filter((dataset) => run?.fits.includes(dataset.id));
    fill($("data"), data.map((dataset) => [dataset.id, dataset.name]));
    const usable = { data: data.length > 0, seed: Boolean(run), real: human || Boolean(run?.real) };
    for (const source of SOURCES) {
      const input = this.sourceInput(source);
      input.disabled = !usable[source];
      input.parentElement.classList.toggle("unusable", !usable[source]);
    }
    if (!usable[this.source]) this.source = SOURCES.find((source) => usable[source]) ?? "seed";
    const recorded = this.source === "data";
    for (const row of document.querySelectorAll(".for-data")) {
      row.classList.toggle("unusable", !recorded);
      row.querySelector("select, input").disabled = !recorded;
    }
  }

  sourceInput(source) {
    return document.querySelector(`input[name="source"][value="${source}"]`);
  }

  get source() {
    return document.querySelector('input[name="source"]:checked')?.value ?? "";
  }

  set source(source) {
    this.sourceInput(source).checked = true;
  }

  start() {
    const whole = (id) => Math.max(0, Math.floor(Number($(id).value) || 0));
    const run = this.run?.id ?? null;
    const source = run === null ? "real" : this.source;
    const about = { source, run, episode: whole("episode"), step: whole("step"), seed: whole("seed") };
    if (source === "data") about.data = $("data").value;
    this.connection.send("start", about);
  }

  dreamFrom(run, data, episode, step) {
    $("run").value = run;
    this.updateSources();
    this.source = "data";
    this.updateSources();
    $("data").value = data;
    $("episode").value = episode;
    $("step").value = step;
    this.start();
  }

  // --- events of the server ---

  onStarted(about) {
    this.started = about;
    this.track = { start: about.start, branch: 0, first: 0, rows: [] };
    this.keys.show(about.controls);
    this.input("actor", "policy").disabled = !about.policy;
    this.input("actor", "recorded").disabled = !about.recording;
    $("fork").disabled = !about.dream || about.real;
    $("sync").disabled = !(about.dream && about.real);
    for (const id of ["futures", "temperature"]) $(id).disabled = !about.dream;
    this.codes.clear();
    if (!about.dream || about.latent === "gaussian") this.codes.show(null, []);
    const name = this.hello.runs.find((run) => run.id === about.request.run)?.name;
    const title = about.dream ? (about.real ? `Imagination of ${name} beside the real environment` : `Imagination of ${name}`) : "The real environment";
    setText($("what"), title);
    const unsaved = about.real && this.hello.record && !about.saves;
    this.note(unsaved ? "Episodes are not saved: their arrays differ from those of the dataset." : ACTING);
  }

  onState(state) {
    const { playing, actor, speed, temperature, futures } = state;
    this.settings = { playing, actor, speed, temperature, futures };
    const button = $("play");
    const label = playing ? "Pause " : "▶ Play ";
    if (button.firstChild.data !== label) button.firstChild.data = label;
    button.setAttribute("aria-pressed", String(playing));
    this.input("actor", actor).checked = true;
    $("keys").classList.toggle("unusable", actor !== "person");
    for (const [id, value, digits] of [["temperature", temperature, 1], ["speed", speed, 0]]) {
      if (document.activeElement !== $(id)) $(id).value = value;
      setText($(`${id}-value`), Number(value).toFixed(digits));
    }
    $("futures").value = futures;
    $("record").checked = state.recording;
    this.stopped = playing ? null : { branch: state.branch, step: state.step };
    this.showRate();
  }

  // Shows "paused" only after the last frame, which may arrive after the event.
  showRate() {
    const { stopped } = this;
    if (stopped && stopped.branch === this.branch && stopped.step === this.step) setText($("rate"), "paused");
    else if (this.settings.playing && this.rate) setText($("rate"), `${number(this.rate, 1)} steps per second`);
  }

  onRows(frame) {
    const track = this.track;
    if (track.start !== frame.start || track.branch !== frame.branch || frame.first > track.first + track.rows.length) {
      this.track = { start: frame.start, branch: frame.branch, first: frame.first, rows: frame.rows };
      return;
    }
    track.rows.splice(Math.max(0, frame.first - track.first), Infinity, ...frame.rows);
    const branch = frame.branches.find((one) => one.number === frame.branch);
    if (branch.first > track.first) {
      track.rows.splice(0, branch.first - track.first); // the server has dropped these as well
      track.first = branch.first;
    }
  }

  onFrame(frame) {
    if (!this.started || frame.start !== this.started.start) return;
    this.step = frame.step;
    this.branch = frame.branch;
    this.rate = frame.rate;
    this.showRate();
    if (frame.step > 0 && $("note").textContent === ACTING) this.note("");
    this.stage.show(panes(frame, this.started));
    this.codes.show(frame.images.prior ?? null, frame.codes ?? []);
    this.plots.show(this.track, frame.step);
    this.timeline.show(frame.branches, frame.branch, frame.step, this.track);
    const branch = frame.branches.find((one) => one.number === frame.branch);
    const [first, last] = this.timeline.span; // as wide as the timeline above it
    Object.assign($("scrub"), { min: first, max: last, value: frame.step });
    $("scrub").setAttribute("aria-valuetext", `step ${frame.step} of ${branch.last}`);
    this.showFacts(frame);
  }

  showFacts(frame) {
    const row = this.track.rows[frame.step - this.track.first];
    const action = row?.[1] ? `, ${row[0] === "person" ? "you" : row[0]}: ${row[1]}` : "";
    setText($("facts"), `step ${frame.step}${action}`);
    if (!this.settings.playing) {
      const names = this.stage.panes.map((pane) => pane.caption).join(", ");
      $("stage").setAttribute("aria-label", `Step ${frame.step}${action}. Images: ${names}.`);
    }
    $("back").disabled = $("first").disabled = frame.step <= (this.track.first ?? 0);
  }

  onRecorded({ name, task, saved, steps }) {
    const summary = saved ? `${saved} episode${saved === 1 ? "" : "s"} with ${steps} steps saved` : "No episodes saved yet";
    setText($("record-text"), `${summary}. Dataset: ${name} (${task}). Episodes are saved when they end.`);
  }

  note(text, bad = false) {
    setText($("note"), text);
    $("note").classList.toggle("bad", bad);
  }

  // --- actions of the user ---

  input(name, value) {
    return document.querySelector(`input[name="${name}"][value="${value}"]`);
  }

  change(changes) {
    if (changes.playing) this.note("");
    this.settings = { ...this.settings, ...changes };
    this.connection.send("settings", this.settings);
  }

  toggle() {
    this.change({ playing: !this.settings.playing });
  }

  goto(branch, step) {
    this.connection.send("goto", { branch, step: Math.max(0, step) });
  }

  listen() {
    const on = (id, type, act) => $(id).addEventListener(type, act);
    on("run", "change", () => this.updateSources());
    for (const input of document.querySelectorAll('input[name="source"]')) input.addEventListener("change", () => { this.updateSources(); this.start(); });
    for (const input of document.querySelectorAll('input[name="actor"]')) input.addEventListener("change", () => this.change({ actor: input.value }));
    for (const id of ["run", "data", "episode", "step", "seed"]) on(id, "change", () => this.start());
    on("start", "click", () => this.start());
    on("play", "click", () => this.toggle());
    on("forward", "click", () => this.connection.send("step"));
    on("back", "click", () => this.goto(this.branch, this.step - 1));
    on("first", "click", () => this.goto(this.branch, 0));
    on("fork", "click", () => this.connection.send("fork"));
    on("sync", "click", () => this.connection.send("sync"));
    on("scrub", "input", () => this.goto(this.branch, Number($("scrub").value)));
    on("futures", "change", () => this.change({ futures: Number($("futures").value) }));
    on("temperature", "input", () => this.change({ temperature: Number($("temperature").value) }));
    on("speed", "input", () => this.change({ speed: Number($("speed").value) }));
    on("record", "change", () => this.connection.send("record", { on: $("record").checked }));
    document.addEventListener("visibilitychange", () => {
      if (document.hidden && this.settings.playing) this.change({ playing: false });
    });
  }

  // Called while the view is visible and no text input has the focus.
  keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.started) return;
    if (this.keys.down(event)) {
      if (document.activeElement?.type === "range") document.activeElement.blur();
      // The first key press starts playback; after a pause, keys can be held for single steps.
      if (this.step === 0 && !this.settings.playing && !event.repeat && this.settings.actor === "person" && this.track.rows.length <= 1) this.toggle();
      return;
    }
    const acts = {
      KeyP: () => this.toggle(),
      Space: () => this.toggle(),
      KeyR: () => this.start(),
      KeyF: () => this.connection.send("fork"),
      KeyC: () => this.connection.send("sync"),
      KeyN: () => this.codes.release(),
      Period: () => this.connection.send("step"),
      Comma: () => this.goto(this.branch, this.step - 1),
    };
    const act = acts[event.code];
    if (!act) return;
    if (event.code === "Space" && document.activeElement?.tagName === "BUTTON") return;
    event.preventDefault();
    act();
  }

  keyup(event) {
    this.keys.up(event);
  }
}
