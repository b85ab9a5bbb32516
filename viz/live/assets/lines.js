// Time: a row for each line, joined where it was forked. A click goes there.

import { $, color, fit } from "./dom.js";

const LEFT = 34, RIGHT = 10;

export class TimeLines {
  constructor(onGoto) {
    this.canvas = $("lines");
    this.lines = [];
    this.canvas.addEventListener("click", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const row = this.rowAt(event.clientY - box.top, box.height);
      if (row) onGoto(row.number, Math.round(this.stepAt(event.clientX - box.left, box.width)));
    });
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  show(lines, line, step, track) {
    Object.assign(this, { lines, line, step, track });
    this.paint();
  }

  get span() {
    const first = Math.min(...this.lines.map((line) => line.first));
    const last = Math.max(...this.lines.map((line) => line.last));
    return [first, Math.max(last, first + 60)];
  }

  stepAt(x, width) {
    const [first, last] = this.span;
    return first + (Math.min(Math.max(x - LEFT, 0), width - LEFT - RIGHT) / (width - LEFT - RIGHT)) * (last - first);
  }

  rowAt(y, height) {
    const index = Math.floor((y / height) * this.lines.length);
    return this.lines[Math.min(Math.max(index, 0), this.lines.length - 1)];
  }

  paint() {
    const { context, width, height } = fit(this.canvas);
    if (!this.lines.length) return;
    const [first, last] = this.span;
    const x = (step) => LEFT + ((step - first) / (last - first)) * (width - LEFT - RIGHT);
    const pitch = height / this.lines.length, thick = Math.min(8, pitch - 2);
    const y = (index) => (index + 0.5) * pitch;
    const indexOf = new Map(this.lines.map((line, index) => [line.number, index]));
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.lines.forEach((line, index) => {
      const here = line.number === this.line;
      context.fillStyle = color(here ? "accent" : "faint");
      const from = line.parent === null ? line.first : Math.max(line.forkedAt, line.first);
      context.fillRect(x(from), y(index) - thick / 2, Math.max(2, x(line.last) - x(from)), thick);
      const parent = indexOf.get(line.parent);
      if (parent !== undefined) {
        const top = Math.min(y(parent), y(index));
        context.fillRect(x(from), top, 2, Math.abs(y(index) - y(parent)));
      }
      context.fillStyle = color(here ? "ink" : "soft");
      if (pitch > 9) context.fillText(`line ${line.number}`, 2, y(index), LEFT - 4);
    });
    const now = indexOf.get(this.line) ?? 0;
    this.marks(context, x, y(now), thick);
    context.fillStyle = color("ink");
    context.fillRect(x(this.step) - 1, 0, 2, height);
    context.beginPath();
    context.arc(x(this.step), y(now), 5, 0, 7);
    context.fill();
    context.fillStyle = color("soft");
    context.textAlign = "right";
    context.fillText(String(last), width - 2, height - 6);
    context.textAlign = "left";
  }

  // Rewards that are expected, on the line that is shown: up for good ones, down for bad ones.
  marks(context, x, y, thick) {
    this.track.rows.forEach((row, index) => {
      const reward = row[2][0] ?? row[6];
      if (!reward || Math.abs(reward) < 0.3) return;
      context.fillStyle = color(reward > 0 ? "good" : "bad");
      context.fillRect(x(this.track.first + index), reward > 0 ? y - thick - 3 : y + thick / 2, 2, thick / 2 + 3);
    });
  }
}
