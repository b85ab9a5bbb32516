// The websocket: sends JSON, receives JSON events and binary frames. Only the newest frame is drawn.

const RETRY = 1500; // milliseconds

export class Connection extends EventTarget {
  constructor() {
    super();
    this.frame = null; // the newest, not yet drawn
    this.open();
  }

  open() {
    const url = new URL("socket", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.receive(event.data);
    this.socket.onclose = (event) => {
      this.emit("closed", { reason: event.reason });
      setTimeout(() => this.open(), RETRY);
    };
  }

  send(kind, about = {}) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ kind, ...about }));
  }

  emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  receive(data) {
    if (typeof data === "string") {
      const event = JSON.parse(data);
      this.emit(event.type, event);
      return;
    }
    const frame = unpack(data);
    this.emit("rows", frame); // plots need the numbers of every frame, also of those that are not drawn
    if (this.frame === null) requestAnimationFrame(() => this.draw());
    this.frame = frame;
  }

  draw() {
    const frame = this.frame;
    this.frame = null;
    this.emit("frame", frame);
    this.send("drawn", { frame: frame.frame });
  }
}

function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const frame = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  frame.images = {};
  for (const { role, shape } of frame.tiles) {
    const size = shape.reduce((a, b) => a * b, 1);
    frame.images[role] = { shape, pixels: new Uint8Array(buffer, at, size) };
    at += size;
  }
  return frame;
}
