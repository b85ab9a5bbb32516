// The images of a step: futures, the true image, the image without forced codes, and differences.

import { color, fit, setText } from "./dom.js";

const CAPTION = 22, GAP = 10; // pixels

// Pixels (H, W, C) as an image that can be drawn at any size.
function toImage({ shape, pixels }) {
  const [height, width, channels = 1] = shape;
  const image = new ImageData(width, height);
  for (let i = 0, n = width * height; i < n; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = pixels[i * channels + (channels > 1 ? c : 0)];
    image.data[4 * i + 3] = 255;
  }
  return image;
}

// Gray where both are equal, bright where the first is brighter, dark where it is darker.
export function difference(first, second) {
  const pixels = new Uint8Array(first.pixels.length);
  let total = 0;
  for (let i = 0; i < pixels.length; i++) {
    const change = first.pixels[i] - second.pixels[i];
    total += Math.abs(change);
    pixels[i] = (change + 255) >> 1;
  }
  return { image: { shape: first.shape, pixels }, mean: total / pixels.length / 255 };
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

// The panes of a frame in order: { caption, image } or { caption, values }.
export function panes(frame, about) {
  const result = [];
  const source = Object.keys(frame.numbers).length ? frame.numbers : frame.images;
  const add = (caption, item, border) => {
    result.push(Array.isArray(item) ? { caption, values: item, border } : { caption, image: item, border });
  };
  const roles = Object.keys(source);
  const dreams = roles.filter((role) => role.startsWith("dream"));
  const { truth, free } = source;
  for (const role of dreams) {
    const future = Number(role.slice(5));
    add(dreams.length > 1 ? `Future ${future + 1}` : "Imagined", source[role], "accent");
  }
  if (truth) add(about.real ? "Real" : "Recorded", truth, "truth");
  if (truth?.pixels && dreams.length) {
    const { image, mean } = difference(source.dream0, truth);
    add(`Difference, ${percent(mean)}`, image);
  }
  if (free) add("Without forcing", free);
  if (free?.pixels && dreams.length) {
    const { image, mean } = difference(source.dream0, free);
    add(`Change by forcing, ${percent(mean)}`, image, "forced");
  }
  return result;
}

// The largest tiles with which `count` images fit into an area.
function layout(count, width, height) {
  let best = { side: 0, columns: 1 };
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const wide = (width - GAP * (columns + 1)) / columns, high = (height - GAP * (rows + 1)) / rows - CAPTION;
    const side = Math.floor(Math.min(wide, high));
    if (side > best.side) best = { side, columns };
  }
  return best;
}

export class Stage {
  constructor(canvas) {
    this.canvas = canvas;
    this.panes = [];
    this.first = null; // position of the first tile, for dragging
    new ResizeObserver(() => this.paint()).observe(canvas);
  }

  show(items) {
    this.panes = items;
    this.paint();
  }

  paint() {
    const { context, width, height } = fit(this.canvas);
    const count = this.panes.length;
    if (!count) return;
    const { side, columns } = layout(count, width, height);
    const rows = Math.ceil(count / columns);
    const top = (height - rows * (side + CAPTION) - (rows - 1) * GAP) / 2;
    this.panes.forEach((pane, index) => {
      const row = Math.floor(index / columns);
      const inRow = Math.min(columns, count - row * columns);
      const left = (width - inRow * side - (inRow - 1) * GAP) / 2;
      const x = left + (index % columns) * (side + GAP), y = top + row * (side + CAPTION + GAP);
      if (index === 0) this.first = { x, y: y + CAPTION, side };
      this.tile(context, pane, Math.round(x), Math.round(y), side);
    });
    setText(this.canvas, this.panes.map((pane) => pane.caption).join(", "));
  }

  tile(context, pane, x, y, side) {
    context.fillStyle = color(pane.border ?? "soft");
    context.font = "600 12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillText(pane.caption, x, y + CAPTION / 2, side);
    y += CAPTION;
    if (pane.values) {
      bars(context, pane.values, x, y, side);
    } else {
      const image = toImage(pane.image);
      const scale = Math.min(side / image.width, side / image.height);
      const buffer = new OffscreenCanvas(image.width, image.height);
      buffer.getContext("2d").putImageData(image, 0, 0);
      context.drawImage(buffer, x, y, image.width * scale, image.height * scale);
    }
    context.strokeStyle = color(pane.border ?? "line");
    context.lineWidth = 2;
    context.strokeRect(x - 1, y - 1, side + 2, side + 2);
  }
}

// A vector observation: a bar for each number.
function bars(context, values, x, y, side) {
  const height = Math.min(26, side / values.length), middle = x + side * 0.55;
  const reach = Math.max(1, ...values.map((value) => Math.abs(value)));
  context.font = `${Math.min(11, Math.floor(height - 2))}px ui-monospace, monospace`;
  values.forEach((value, index) => {
    const top = y + index * height;
    context.fillStyle = color("faint");
    const length = (value / reach) * side * 0.42;
    context.fillRect(Math.min(middle, middle + length), top + 2, Math.abs(length), height - 4);
    context.fillStyle = color("ink");
    context.fillText(value.toFixed(2).padStart(7), x + 4, top + height / 2);
  });
}
