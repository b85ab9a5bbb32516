// Helpers of all views.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children); // strings are appended as text, so that no string of a dataset becomes markup
  return node;
}

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Resize a canvas to the resolution of the screen; returns its context and its size in CSS pixels.
export function fit(canvas) {
  const box = canvas.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(box.width)), height = Math.max(1, Math.round(box.height));
  if (canvas.width !== width * scale || canvas.height !== height * scale) {
    canvas.width = width * scale;
    canvas.height = height * scale;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.imageSmoothingEnabled = false;
  return { context, width, height };
}

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return Number.isInteger(value) ? String(value) : value.toFixed(size >= 100 ? 1 : digits);
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Replace the options of a menu by [value, label] pairs; the selection stays if it is among them.
export function fill(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, label]) => make("option", { value }, label)));
  if (options.some(([value]) => value === before)) select.value = before;
  select.disabled = options.length === 0;
}
