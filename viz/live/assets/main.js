// The page: views, colors, keys, and the connection status.

import { $, setText } from "./dom.js";
import { Connection } from "./socket.js";
import { Browser } from "./data.js";
import { Models } from "./models.js";
import { Player } from "./play.js";

const VIEWS = ["play", "data", "models", "help"];

const connection = new Connection();
const player = new Player(connection);
const browser = new Browser((run, data, episode, step) => {
  show("play");
  player.dreamFrom(run, data, episode, step);
});
const models = new Models(connection);
let view = "play";
let connectedBefore = false;

function show(name, focus = false) {
  if (view === "play" && name !== "play" && player.settings.playing) player.change({ playing: false });
  if (view === "data" && name !== "data") browser.leave();
  view = name;
  for (const each of VIEWS) {
    $(`view-${each}`).hidden = each !== name;
    $(`tab-${each}`).setAttribute("aria-selected", String(each === name));
    $(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
  if (focus) $(`tab-${name}`).focus();
  if (name === "data") browser.enter();
  if (name === "models") models.paint();
}

VIEWS.forEach((name, index) => {
  $(`tab-${name}`).addEventListener("click", () => show(name));
  $(`tab-${name}`).addEventListener("keydown", (event) => {
    const change = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!change) return;
    event.preventDefault();
    event.stopPropagation();
    show(VIEWS[(index + change + VIEWS.length) % VIEWS.length], true);
  });
});

connection.addEventListener("hello", ({ detail }) => {
  setText($("status"), `Connected, wmtk ${detail.version}`);
  $("status").className = "";
  document.body.classList.toggle("human", detail.human);
  browser.onHello(detail);
  models.onHello(detail);
  player.onHello(detail);
  if (!connectedBefore && !detail.runs.length && !detail.human) show("data");
  connectedBefore = true;
});
connection.addEventListener("closed", ({ detail }) => {
  setText($("status"), detail.reason || "No connection. Is wmtk viz serve still running?");
  $("status").className = "bad";
});

function isTextInput(target) {
  if (target.tagName === "SELECT" || target.tagName === "TEXTAREA") return true;
  return target.tagName === "INPUT" && target.type === "number";
}

// After a selection with the mouse, keys act in the player; after one with keys, the focus stays.
let mouse = false;
document.addEventListener("pointerdown", () => { mouse = true; }, true);
document.addEventListener("keydown", () => { mouse = false; }, true);
for (const type of ["change", "click"]) {
  document.addEventListener(type, (event) => {
    const done = type === "change" ? event.target.type !== "number" : event.target.closest("button");
    if (mouse && done) document.activeElement?.blur();
  });
}

document.addEventListener("keydown", (event) => {
  if (view === "play" && !isTextInput(event.target)) player.keydown(event);
});
document.addEventListener("keyup", (event) => player.keyup(event));

// --- colors ---

const root = document.documentElement;

function dark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

$("theme").addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  window.dispatchEvent(new Event("resize"));
  player.plots.redraw?.();
  player.stage.paint();
  player.codes.paint();
  player.timeline.paint();
  browser.paint();
});
const savedTheme = localStorage.getItem("theme");
if (savedTheme === "dark" || savedTheme === "light") root.dataset.theme = savedTheme;
