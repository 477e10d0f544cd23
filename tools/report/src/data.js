// The recording in the page, as numbers: columns decoded, looked up by frame and index.

function bytes(text, name) {
  let raw = '';
  try { raw = atob(text || ''); } catch { throw new Error(`its column "${name}" is not base64`); }
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) out[i] = raw.charCodeAt(i);
  return out.buffer;
}

export class Motion {
  constructor(json) {
    if (!Number.isInteger(json.frames) || json.frames < 0) throw new Error(`${json.frames} frames`);
    const numbers = (Type, name, width) => {
      const raw = bytes(c[name], name), due = width * json.frames * Type.BYTES_PER_ELEMENT;
      if (raw.byteLength !== due && name === 'point') return null;  // where nothing is known of a link, it has none
      if (raw.byteLength !== due) throw new Error(`its column "${name}" has ${raw.byteLength} bytes, ${json.frames} frames have ${due}`);
      return new Type(raw);
    };
    const c = json.columns, floats = (name, width) => (name in c ? numbers(Float32Array, name, width) : null);
    this.frames = json.frames;
    this.step = json.every * json.dt;
    this.every = json.every;
    this.dt = json.dt;
    this.links = json.constraints;
    this.signals = json.signals;
    this.all = json.bodies;
    this.bodies = json.bodies.filter((b) => b.kind !== 'coordinate');
    this.coordinates = json.bodies.filter((b) => b.kind === 'coordinate');
    this.moving = [];  // links whose points are a column
    this.links.forEach((link, i) => { if (!link.at) this.moving.push(i); });
    const links = this.links.length, widths = { t: 1, position: 3 * this.bodies.length, coordinate: 2 * this.coordinates.length, gap: links, energy: 1, force: 3 * links,
      point: 3 * this.moving.length, moment: links, ideal: links, nonideal: links, stabilisation: links, signal: this.signals.length };
    for (const [name, width] of Object.entries(widths)) this[name] = floats(name, width);
    this.rotation = numbers(Int16Array, 'rotation', 4 * this.bodies.length);
    for (const name of ['t', 'position', 'gap', 'force', 'signal', ...(this.coordinates.length ? ['coordinate'] : [])]) if (!this[name]) throw new Error(`it has no column "${name}"`);
    // Bodies by their number in the file, which counts coordinates too.
    this.bodyOf = new Map();
    let n = 0;
    json.bodies.forEach((b, i) => { if (b.kind !== 'coordinate') this.bodyOf.set(i, n++); });
    this.begin = this.t.length ? this.t[0] : 0;
    this.end = this.t.length ? this.t[this.t.length - 1] : 0;
    if (!(this.step > 0)) this.step = (this.end - this.begin) / Math.max(this.frames - 1, 1) || 1;
  }
  column(data, width, index) {
    const out = new Array(this.frames);
    for (let f = 0; f < this.frames; ++f) { const x = data[f * width + index]; out[f] = Number.isFinite(x) ? x : null; }
    return out;
  }
  size(data, index) {  // of a vector column of the links
    const n = this.links.length, out = new Array(this.frames);
    for (let f = 0; f < this.frames; ++f) {
      const k = 3 * (f * n + index), x = Math.hypot(data[k], data[k + 1], data[k + 2]);
      out[f] = Number.isFinite(x) ? x : null;
    }
    return out;
  }
  turned(body) {  // angle between a body as it was at the start and as it is [°]
    const n = this.bodies.length, out = new Array(this.frames);
    for (let f = 0; f < this.frames; ++f) {
      let dot = 0, a = 0, b = 0;
      for (let k = 0; k < 4; ++k) { const x = this.rotation[4 * body + k], y = this.rotation[4 * (f * n + body) + k]; dot += x * y; a += x * x; b += y * y; }
      out[f] = a * b > 0 ? (360 / Math.PI) * Math.acos(Math.min(1, Math.abs(dot) / Math.sqrt(a * b))) : null;
    }
    return out;
  }
  largest(columns) {
    const out = new Array(this.frames).fill(null);
    for (const c of columns) for (let f = 0; f < this.frames; ++f) if (c[f] !== null && (out[f] === null || c[f] > out[f])) out[f] = c[f];
    return out;
  }
  gaps(link) {
    const n = this.links.length, of = (i) => this.column(this.gap, n, i);
    if (link >= 0) return of(link);
    const unit = this.gapUnit(-1);
    return this.largest(this.links.map((l, i) => (l.unit === unit ? of(i) : [])).filter((c) => c.length));
  }
  gapUnit(link) {
    if (link >= 0) return this.links[link].unit;
    const units = ['m', '', 'rad'].filter((unit) => this.links.some((l) => l.unit === unit));
    const has = (test) => (unit) => this.links.some((l, i) => { for (let f = 0; l.unit === unit && f < this.frames; ++f) if (test(this.gap[f * this.links.length + i])) return true; return false; });
    return units.find(has((x) => x > 0)) ?? units.find(has(Number.isFinite)) ?? units[0] ?? '';
  }
  forces(link) {
    if (link >= 0) return this.size(this.force, link);
    const unit = this.forceUnit(-1);
    return this.largest(this.links.map((l, i) => (this.forceUnit(i) === unit ? this.size(this.force, i) : [])).filter((c) => c.length));
  }
  forceUnit(link) {  // of all: newtons, where any constraint is among bodies
    if (link < 0) { const units = this.links.map((l, i) => this.forceUnit(i)); return units.includes('N') ? 'N' : units[0] ?? 'N'; }
    const on = this.all[this.links[link].bodies[this.links[link].on]];
    return on && on.kind === 'coordinate' ? on.force_unit ?? '' : 'N';
  }
  part(name, link) { return this[name] ? this.column(this[name], this.links.length, link) : null; }
  // The pose of a body between frames; q as x, y, z, w.
  pose(body, time, p, q) {
    const n = this.bodies.length, f = Math.min(this.frameAt(time), Math.max(this.frames - 2, 0));
    const span = this.frames > 1 ? this.t[f + 1] - this.t[f] : 0;
    const s = span > 0 ? Math.min(Math.max((time - this.t[f]) / span, 0), 1) : 0;
    const a = 3 * (f * n + body), b = this.frames > 1 ? a + 3 * n : a;
    for (let k = 0; k < 3; ++k) p[k] = this.position[a + k] * (1 - s) + this.position[b + k] * s;
    const c = 4 * (f * n + body), d = this.frames > 1 ? c + 4 * n : c;
    let dot = 0, norm = 0;
    for (let k = 0; k < 4; ++k) dot += this.rotation[c + k] * this.rotation[d + k];
    for (let k = 0; k < 4; ++k) {
      q[k] = this.rotation[c + k] * (1 - s) + (dot < 0 ? -1 : 1) * this.rotation[d + k] * s;
      norm += q[k] * q[k];
    }
    norm = Math.sqrt(norm) || 1;
    for (let k = 0; k < 4; ++k) q[k] /= norm;
  }
  // The last frame that is not after the time. Steps of a program need not be equal, nor begin at zero.
  frameAt(time) {
    const late = time + 1e-3 * this.step;  // times are in single precision
    let low = 0, high = this.frames - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.t[middle] <= late) low = middle; else high = middle - 1;
    }
    return low;
  }
  // Force of a link at a frame, and where it acts, in the axes of the body it is shown on; false where it is not known.
  forceAt(link, frame, force, local) {
    const n = this.links.length, k = 3 * (frame * n + link);
    for (let i = 0; i < 3; ++i) force[i] = this.force[k + i];
    return Number.isFinite(force[0]) && this.pointAt(link, frame, local);
  }
  pointAt(link, frame, local) {
    const at = this.links[link].at;
    if (at) { for (let i = 0; i < 3; ++i) local[i] = at[i]; return true; }
    if (!this.point) return false;
    const k = 3 * (frame * this.moving.length + this.moving.indexOf(link));
    for (let i = 0; i < 3; ++i) local[i] = this.point[k + i];
    return Number.isFinite(local[0]);
  }
}

export let recording = null, damage = null;
try { recording = JSON.parse(document.getElementById('recording').textContent); } catch (error) { damage = error; }
