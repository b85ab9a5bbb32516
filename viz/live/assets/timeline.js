// The timeline: a row for each branch, joined where it was forked. A click selects a step.

import { $, color, fit } from "./dom.js";

const LEFT = 34, RIGHT = 10;

export class Timeline {
  constructor(onGoto) {
    this.canvas = $("timeline");
    this.branches = [];
    this.canvas.addEventListener("click", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const row = this.rowAt(event.clientY - box.top, box.height);
      if (row) onGoto(row.number, Math.round(this.stepAt(event.clientX - box.left, box.width)));
    });
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  show(branches, branch, step, track) {
    Object.assign(this, { branches, branch, step, track });
    this.paint();
  }

  get span() {
    const first = Math.min(...this.branches.map((branch) => branch.first));
    const last = Math.max(...this.branches.map((branch) => branch.last));
    return [first, Math.max(last, first + 60)];
  }

  stepAt(x, width) {
    const [first, last] = this.span;
    return first + (Math.min(Math.max(x - LEFT, 0), width - LEFT - RIGHT) / (width - LEFT - RIGHT)) * (last - first);
  }

  rowAt(y, height) {
    const index = Math.floor((y / height) * this.branches.length);
    return this.branches[Math.min(Math.max(index, 0), this.branches.length - 1)];
  }

  paint() {
    const { context, width, height } = fit(this.canvas);
    if (!this.branches.length) return;
    const [first, last] = this.span;
    const x = (step) => LEFT + ((step - first) / (last - first)) * (width - LEFT - RIGHT);
    const pitch = height / this.branches.length, thick = Math.min(8, pitch - 2);
    const y = (index) => (index + 0.5) * pitch;
    const indexOf = new Map(this.branches.map((branch, index) => [branch.number, index]));
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.branches.forEach((branch, index) => {
      const here = branch.number === this.branch;
      context.fillStyle = color(here ? "accent" : "faint");
      const from = branch.parent === null ? branch.first : Math.max(branch.forkedAt, branch.first);
      context.fillRect(x(from), y(index) - thick / 2, Math.max(2, x(branch.last) - x(from)), thick);
      const parent = indexOf.get(branch.parent);
      if (parent !== undefined) {
        const top = Math.min(y(parent), y(index));
        context.fillRect(x(from), top, 2, Math.abs(y(index) - y(parent)));
      }
      context.fillStyle = color(here ? "ink" : "soft");
      if (pitch > 9) context.fillText(`branch ${branch.number}`, 2, y(index), LEFT - 4);
    });
    const now = indexOf.get(this.branch) ?? 0;
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

  // Predicted rewards of the current branch: marks above the line if positive, below if negative.
  marks(context, x, y, thick) {
    this.track.rows.forEach((row, index) => {
      const reward = row[2][0] ?? row[6];
      if (!reward || Math.abs(reward) < 0.3) return;
      context.fillStyle = color(reward > 0 ? "good" : "bad");
      context.fillRect(x(this.track.first + index), reward > 0 ? y - thick - 3 : y + thick / 2, 2, thick / 2 + 3);
    });
  }
}
