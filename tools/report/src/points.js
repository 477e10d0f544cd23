// Points and curves over two quantities, with a legend: for sweeps, and for the plane of eigenvalues.
import { make } from './dom.js';
import { plain, power, ticks } from './number.js';
import { axis, room, theme } from './plots.js';
import uPlot from 'uplot';

const limits = (list) => {
  let low = Infinity, high = -Infinity;
  for (const x of list) if (x !== null) { low = Math.min(low, x); high = Math.max(high, x); }
  return [low, high];
};

export function dot(c, shape, x, y, r) {
  c.beginPath();
  if (shape === 'diamond') { c.moveTo(x, y - r); c.lineTo(x + r, y); c.lineTo(x, y + r); c.lineTo(x - r, y); c.closePath(); } else if (shape === 'cross') { c.moveTo(x - r, y - r); c.lineTo(x + r, y + r); c.moveTo(x + r, y - r); c.lineTo(x - r, y + r); } else c.arc(x, y, r, 0, 7);
}
const hollow = (kind) => kind === 'cross' || kind === 'ring';
export function legend(host, entries) {
  host.textContent = '';
  for (const [text, colour, kind] of entries) {
    const one = make('span', null, { className: 'entry' }), canvas = make('canvas', null, { width: 68, height: 28 }), c = canvas.getContext('2d');
    one.dataset.kind = kind;
    c.scale(2, 2);
    c.strokeStyle = c.fillStyle = colour;
    c.lineWidth = 2;
    if (kind === 'line' || kind === 'dashed') { c.setLineDash(kind === 'dashed' ? [7, 4] : []); c.beginPath(); c.moveTo(0, 7); c.lineTo(34, 7); c.stroke(); c.setLineDash([]); }
    if (kind === 'line' || kind === 'dots') { dot(c, 'dot', 17, 7, 3); c.fill(); }
    if (kind === 'circle') { dot(c, kind, 17, 7, 6); c.stroke(); }
    if (kind === 'diamond' || hollow(kind)) { dot(c, kind, 17, 7, 4.5); hollow(kind) ? c.stroke() : c.fill(); }
    one.append(canvas, text);
    host.append(one);
  }
}

const nice = (low, high, n) => {
  const raw = (high - low) / n;
  if (!(raw > 1e-14 * Math.max(Math.abs(low), Math.abs(high)))) return [low];
  const p = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((m) => m * p).find((s) => s >= raw * (1 - 1e-9)), out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && out.length < 60; ++k) out.push(k * step);
  return out;
};
// How values lie on an axis: as they are, by their logarithms, or as parts of a power of ten that doubles hardly hold.
export function ruler(list, log) {
  const [low, high] = limits(list), most = Math.max(Math.abs(low), Math.abs(high));
  const e = !log && Number.isFinite(most) && (most > 1e100 || (most > 0 && most < 1e-100)) ? Math.floor(Math.log10(most)) : 0;
  const to = (v) => (v === null ? null : log ? (v > 0 ? Math.log10(v) : null) : v / 10 ** e);
  return {
    to, low: to(low), high: to(high), power: e ? ` [${power(e)}]` : '',
    marks(a, b, n) {
      if (!log) { const at = nice(a, b, n), { text, base } = ticks(at); return { at, text, base }; }
      const first = Math.ceil(a - 1e-9), last = Math.floor(b + 1e-9), step = Math.max(1, Math.ceil((last - first + 1) / n)), at = [];
      for (let k = Math.ceil(first / step) * step; k <= last; k += step) at.push(k);
      if (at.length >= 2) return { at, text: at.map((k) => (k > -4 && k < 5 ? plain(10 ** k) : power(k))), base: '' };
      const few = nice(10 ** a, 10 ** b, n).filter((v) => v > 0);
      return { at: few.map(Math.log10), text: ticks(few).text, base: '' };
    },
  };
}

// The half plane of growth, of eigenvalues: the line without growth or decay, with words on both sides of it.
function halves(u) {
  const c = u.ctx, ratio = devicePixelRatio, colours = theme(), x = u.valToPos(0, 'x', true), { left, top, width, height } = u.bbox;
  if (!(x >= left && x <= left + width)) return;
  c.save();
  c.fillStyle = 'rgba(213, 94, 0, 0.08)';
  c.fillRect(x, top, left + width - x, height);
  c.fillStyle = c.strokeStyle = colours.soft;
  c.lineWidth = 1.5 * ratio;
  c.beginPath();
  c.moveTo(x, top);
  c.lineTo(x, top + height);
  c.stroke();
  c.font = `${12 * ratio}px system-ui, "Segoe UI", Roboto, Arial, sans-serif`;
  c.textBaseline = 'top';
  for (const [text, align, side] of [['decays', 'right', -1], ['grows', 'left', 1]]) {
    c.textAlign = align;
    if ((side < 0 ? x - left : left + width - x) > c.measureText(text).width + 12 * ratio) c.fillText(text, x + 6 * side * ratio, top + 6 * ratio);
  }
  c.restore();
}
// Curves and points in one plot: [{x, y, colour, colours, line, kind, points, floor}]. `plane`: eigenvalues.
export function points(host, series, { width, height, xname, yname, xlog = false, ylog = false, plane = false }) {
  const colours = theme(), ratio = devicePixelRatio, drawn = series.filter((s) => !s.floor), zero = plane ? [0] : [];
  const across = ruler([...zero, ...series.flatMap((s) => s.x)], xlog), up = ruler([...zero, ...drawn.flatMap((s) => s.y)], ylog);
  const xs = room(across.low, across.high), ys = room(up.low, up.high);
  if (plane) {  // The words of both halves have a place above the points.
    xs[1] = Math.max(xs[1], -0.18 * xs[0]);
    xs[0] = Math.min(xs[0], -0.18 * xs[1]);
    ys[1] += 0.14 * (ys[1] - ys[0]);
  }
  const paint = (u, index) => {
    const s = series[index - 1], c = u.ctx;
    const at = s.x.map((v, i) => {
      const x = across.to(v), y = s.floor ? 0 : up.to(s.y[i]);
      return x === null || y === null ? null : [u.valToPos(x, 'x', true), s.floor ? u.bbox.top + u.bbox.height - 8 * ratio : u.valToPos(y, 'y', true)];
    });
    c.save();
    c.beginPath();
    c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    c.clip();
    c.strokeStyle = c.fillStyle = s.colour;
    c.lineWidth = (s.kind === 'dashed' ? 2.4 : 1.8) * ratio;
    if (s.line) {
      c.setLineDash(s.kind === 'dashed' ? [7 * ratio, 4 * ratio] : []);
      c.beginPath();
      let pen = false;
      for (const p of at) { if (p) pen ? c.lineTo(...p) : c.moveTo(...p); pen = p !== null; }
      c.stroke();
      c.setLineDash([]);
    }
    const small = s.y.length > 400 ? 1.6 : s.y.length > 80 ? 2.4 : 3.4, r = (s.kind === 'ring' ? small + 2 : s.kind === 'diamond' || s.kind === 'cross' ? 5 : small) * ratio;
    if (s.kind === 'ring') c.lineWidth = 1.3 * ratio;
    if (s.points) at.forEach((p, i) => {
      if (!p) return;
      if (s.colours) c.strokeStyle = c.fillStyle = s.colours[i];
      dot(c, s.kind, ...p, s.radius ? s.radius * ratio : r);
      hollow(s.kind) ? c.stroke() : c.fill();
    });
    c.restore();
    return null;
  };
  const x = across.marks(...xs, Math.max(2, Math.floor((width - 82) / 60))), y = up.marks(...ys, Math.floor((height - 50) / 40));
  const corner = make('div', y.base, { className: 'base' });
  return new uPlot({
    mode: 2, width, height, padding: [12, 22, 0, 0], cursor: { show: false }, legend: { show: false },
    hooks: { ready: [(self) => { self.over.append(corner); }], drawAxes: plane ? [halves] : [] },
    scales: { x: { time: false, range: () => xs }, y: { range: () => ys } },
    axes: [axis(colours, { label: xname + across.power, splits: () => x.at, values: () => x.text, size: 34 }), axis(colours, { label: yname.length > 60 ? up.power : yname + up.power, size: 66, splits: () => y.at, values: () => y.text })],
    series: [null, ...series.map(() => ({ paths: paint, facets: [{ scale: 'x', auto: true }, { scale: 'y', auto: true }] }))],
  }, [null, ...series.map((s) => [s.x.map(across.to), s.floor ? s.x.map(() => ys[0]) : s.y.map(up.to)])], host);
}

// Dark to light without hue alone: anchors of viridis, which prints in grey and is seen by all.
export const scale = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
export function shade(s) {
  const at = Math.min(Math.max(s, 0), 1) * (scale.length - 1), i = Math.min(Math.floor(at), scale.length - 2), f = at - i;
  return `rgb(${scale[i].map((a, k) => Math.round(a + (scale[i + 1][k] - a) * f)).join(',')})`;
}
