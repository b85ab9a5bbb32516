// Curves over time: a strong line for the first future, faint ones for the others, dots for real
// rewards.

import { color, fit, number, setText, $ } from "./dom.js";

const MOST_STEPS = 240; // steps in a plot
const COLUMNS = { reward: 2, discount: 3, value: 4, entropy: 5 };
const TRUE_REWARD = 6, SYNCED = 7;

export class Plots {
  constructor() {
    for (const name of Object.keys(COLUMNS)) {
      new ResizeObserver(() => this.redraw?.()).observe($(`plot-${name}`));
    }
  }

  // `track` has rows from step `first` on; `step` is the current step.
  show(track, step) {
    this.redraw = () => this.show(track, step);
    const end = Math.max(step, Math.min(track.first + track.rows.length - 1, step + MOST_STEPS / 4));
    const begin = Math.max(track.first, end - MOST_STEPS + 1);
    for (const [name, column] of Object.entries(COLUMNS)) {
      this.plot(name, column, track, begin, Math.max(end, begin + 30), step);
    }
  }

  plot(name, column, track, begin, end, step) {
    const { context, width, height } = fit($(`plot-${name}`));
    const rows = track.rows.slice(begin - track.first, end - track.first + 1);
    const numbers = rows.map((row) => row[column]);
    const truths = name === "reward" ? rows.map((row) => row[TRUE_REWARD]) : [];
    const all = [...numbers.flat(), ...truths].filter((value) => value !== null && value !== undefined);
    const here = track.rows[step - track.first];
    const now = here?.[column]?.[0];
    const truth = name === "reward" && here ? here[TRUE_REWARD] : null;
    const text = now === undefined ? (truth === null ? "not available" : "") : number(now);
    setText($(`now-${name}`), truth === null || truth === undefined ? text : [text, `real ${number(truth, 2)}`].filter(Boolean).join(", "));
    const [low, high] = range(name, all);
    const x = (at) => ((at - begin) / Math.max(1, end - begin)) * (width - 44) + 40;
    const y = (value) => height - 5 - ((value - low) / (high - low)) * (height - 10);
    axes(context, width, height, low, high, y);
    const futures = Math.max(0, ...numbers.map((values) => values.length));
    for (let future = futures - 1; future >= 0; future--) {
      context.strokeStyle = color(future ? "faint" : "accent");
      context.lineWidth = future ? 1 : 1.6;
      context.beginPath();
      let drawing = false;
      numbers.forEach((values, index) => {
        const value = values[future];
        if (value === undefined || value === null) { drawing = false; return; }
        context[drawing ? "lineTo" : "moveTo"](x(begin + index), y(value));
        drawing = true;
      });
      context.stroke();
    }
    context.fillStyle = color("truth");
    truths.forEach((value, index) => {
      if (value) context.fillRect(x(begin + index) - 1.5, y(value) - 1.5, 3, 3);
    });
    rows.forEach((row, index) => {
      if (row[SYNCED] && begin + index > track.first) context.fillRect(x(begin + index), height - 4, 2, 4);
    });
    context.fillStyle = color("soft");
    context.fillRect(x(step), 0, 1, height);
  }
}

function range(name, values) {
  if (!values.length) return [0, 1];
  let low = Math.min(...values), high = Math.max(...values);
  if (name === "reward") [low, high] = [Math.min(low, -0.1), Math.max(high, 0.1)];
  if (name === "discount") [low, high] = [Math.min(low, 0.9), Math.max(high, 1)];
  if (name === "entropy") low = 0;
  if (high - low < 1e-3) [low, high] = [low - 0.5, high + 0.5];
  return [low, high];
}

function axes(context, width, height, low, high, y) {
  context.fillStyle = color("soft");
  context.font = "10px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  const digits = high - low < 1 ? 2 : high - low < 20 ? 1 : 0;
  context.fillText(high.toFixed(digits), 36, 7);
  context.fillText(low.toFixed(digits), 36, height - 7);
  context.textAlign = "left";
  context.strokeStyle = color("line");
  context.lineWidth = 1;
  context.strokeRect(40.5, 0.5, width - 41, height - 1);
  if (low < 0 && high > 0) {
    context.beginPath();
    context.moveTo(40, Math.round(y(0)) + 0.5);
    context.lineTo(width, Math.round(y(0)) + 0.5);
    context.stroke();
  }
}
