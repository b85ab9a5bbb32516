// Input of actions: keys, buttons, sliders, and dragging on the image.

import { $, make } from "./dom.js";

const MOST_PADS = 9; // buttons on the page
const SHORTEST = 90; // milliseconds: a shorter press is extended, so that a step includes it

export class Keys {
  constructor(onChange, stage) {
    this.onChange = onChange;
    this.held = new Set();
    this.values = [];
    this.keys = {};
    this.controls = null;
    this.pressed = new Map(); // time of the press, by key name
    window.addEventListener("blur", () => this.releaseAll());
    this.dragWith(stage);
  }

  // Handle a key press; returns whether the key selects an action.
  down(event) {
    const part = this.keys[event.code];
    if (part === undefined) return false;
    event.preventDefault();
    if (!event.repeat) this.press(part);
    return true;
  }

  up(event) {
    const part = this.keys[event.code];
    if (part !== undefined) this.release(part);
  }

  press(part) {
    this.pressed.set(part, performance.now());
    if (this.controls.kind === "levers") this.push(part, 1);
    this.held.add(part);
    this.changed();
  }

  release(part) {
    const began = this.pressed.get(part) ?? 0;
    const rest = began + SHORTEST - performance.now();
    const end = () => {
      if (this.pressed.get(part) !== began) return; // pressed again meanwhile
      this.held.delete(part);
      if (this.controls?.kind === "levers") this.push(part, 0);
      this.changed();
    };
    if (rest > 0) setTimeout(end, rest);
    else end();
  }

  releaseAll() {
    this.held.clear();
    if (this.controls?.kind === "levers") this.values.fill(0);
    this.changed();
  }

  push(part, amount) {
    const [index, sign] = part.split(":").map(Number);
    this.values[index] = sign * amount;
  }

  changed() {
    this.onChange([...this.held].filter((part) => !part.includes(":")), this.values);
    this.mark();
  }

  // --- controls on the page ---

  show(controls) {
    this.controls = controls;
    this.held.clear();
    this.values = [];
    this.keys = {};
    if (controls.kind === "buttons") this.showButtons(controls);
    else this.showLevers(controls);
    this.changed();
  }

  showButtons(controls) {
    this.keys = controls.keys;
    // If there are many combinations, only single keys are shown, which can be held together.
    this.parts = controls.buttons.length > MOST_PADS;
    const buttons = controls.buttons.filter((button) => !this.parts || button.parts.length <= 1);
    const pads = buttons.map((button) => {
      const pad = make("button", { class: "pad", title: "Hold to act", tabIndex: -1 }, button.label, make("span", {}, button.sign));
      pad.parts = button.parts;
      const press = (event) => {
        event.preventDefault();
        button.parts.forEach((part) => this.press(part));
      };
      const release = () => button.parts.forEach((part) => this.release(part));
      pad.addEventListener("pointerdown", press);
      for (const type of ["pointerup", "pointerleave", "pointercancel"]) pad.addEventListener(type, release);
      return pad;
    });
    const how = this.parts ? "Hold one or several: " : "Hold: ";
    $("keys").replaceChildren(make("span", { class: "small" }, how), ...pads);
  }

  showLevers(controls) {
    this.values = controls.levers.map(() => 0);
    const names = [["ArrowLeft", "0:-1"], ["KeyA", "0:-1"], ["ArrowRight", "0:1"], ["KeyD", "0:1"]];
    if (controls.levers.length > 1) names.push(["ArrowUp", "1:-1"], ["KeyW", "1:-1"], ["ArrowDown", "1:1"], ["KeyS", "1:1"]);
    this.keys = Object.fromEntries(names);
    const signs = ["← →", "↑ ↓"];
    this.sliders = controls.levers.map((lever, index) => {
      const input = make("input", { type: "range", min: -1, max: 1, step: 0.01, value: 0, "aria-label": lever.label });
      input.addEventListener("input", () => {
        this.values[index] = Number(input.value);
        this.changed();
      });
      const output = make("output", {}, "0");
      const box = make("label", { class: "lever" }, `${lever.label} `, ...(signs[index] ? [make("kbd", {}, signs[index])] : []), input, output);
      return { input, output, box, lever };
    });
    const drag = make("span", { class: "small" }, "Hold the keys, drag on the image, or move: ");
    $("keys").replaceChildren(drag, ...this.sliders.map((slider) => slider.box));
  }

  mark() {
    if (this.controls?.kind === "levers") {
      this.sliders.forEach(({ input, output, lever }, index) => {
        input.value = this.values[index];
        const value = lever.low + ((this.values[index] + 1) / 2) * (lever.high - lever.low);
        output.textContent = value.toFixed(2);
      });
      return;
    }
    const pads = [...$("keys").querySelectorAll(".pad")];
    const fitting = pads.filter((pad) => pad.parts.every((part) => this.held.has(part)));
    const most = Math.max(-1, ...fitting.map((pad) => pad.parts.length));
    const chosen = fitting.find((pad) => pad.parts.length === most);
    for (const pad of pads) {
      const together = this.parts && pad.parts.length > 0 && fitting.includes(pad);
      pad.classList.toggle("held", pad === chosen || together);
    }
  }

  dragWith(stage) {
    const move = (event) => {
      if (this.controls?.kind !== "levers" || !stage.first || !event.buttons) return;
      const box = stage.canvas.getBoundingClientRect();
      const { x, y, side } = stage.first;
      const at = [event.clientX - box.left - x, event.clientY - box.top - y];
      at.forEach((distance, index) => {
        if (index < this.values.length) this.values[index] = Math.min(1, Math.max(-1, (distance / side) * 2 - 1));
      });
      this.changed();
    };
    const end = () => {
      if (this.controls?.kind === "levers") this.releaseAll();
    };
    stage.canvas.addEventListener("pointerdown", (event) => {
      stage.canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    stage.canvas.addEventListener("pointermove", move);
    stage.canvas.addEventListener("pointerup", end);
    stage.canvas.addEventListener("pointercancel", end);
  }
}
