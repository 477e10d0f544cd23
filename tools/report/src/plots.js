// Plots over time that share a cursor, and one of any two quantities.
import uPlot from 'uplot';
import { brief, power } from './number.js';

export function theme() {
  const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(name).trim();
  return { ink: get('--ink'), soft: get('--soft'), line: get('--line') };
}

const font = '12px system-ui, "Segoe UI", Roboto, Arial, sans-serif';
export function axis(colours, more) {
  return { stroke: colours.soft, font, labelFont: font, labelGap: 0, labelSize: 18, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line, width: 1, size: 4 }, ...more };
}

// Decades that fit, none between: with a dozen of them uPlot's own are a grey block.
function decades(u, _, low, high) {
  const a = Math.ceil(Math.log10(low) - 1e-9), b = Math.floor(Math.log10(high) + 1e-9);
  const room = Math.max(2, Math.floor(u.bbox.height / devicePixelRatio / 24)), step = Math.max(1, Math.ceil((b - a + 1) / room));
  const out = [];
  for (let e = Math.ceil(a / step) * step; e <= b; e += step) out.push(10 ** e);
  return out;
}
// The axes are made for the runs that came to their end: a lost one leaves the picture, instead of making it all of it.
const sound = (series) => (series.some((s) => s.sound) ? series.filter((s) => s.sound) : series);
function extremes(series) {
  let low = Infinity, high = -Infinity;
  for (const s of series) for (const y of s.y) if (y !== null) { low = Math.min(low, y); high = Math.max(high, y); }
  return [low, high];
}

// Some air on both sides; what differs by rounding alone is one value, as axes have no more digits than that.
export function room(low, high) {
  const most = Math.max(Math.abs(low), Math.abs(high)), pad = high - low > 1e-9 * most ? 0.06 * (high - low) : 0.1 * most || 1;
  return [low - pad, high + pad];
}

export function label(values) {
  const most = Math.max(...values.map(Math.abs));
  if (most !== 0 && (most < 1e-3 || most >= 1e5)) return values.map((v) => (v === 0 ? '0' : v.toExponential(1).replace('.0e', 'e').replace('e+', 'e')));
  return values.map((v) => String(Number(v.toPrecision(6))));
}

// series: [{label, colour, dash, x, y}], each on its own times. Returns null where there is nothing to draw.
export function plot(host, series, { log = false, across = 's', xlabel, height = 180, sync, seek, width }) {
  host.textContent = '';
  const colours = theme();
  const drawn = series.filter((s) => s.y.some((y) => y !== null));
  if (!drawn.length) {
    const none = document.createElement('div');
    none.className = 'none';
    none.textContent = 'nothing to draw: none of the runs has it';
    host.append(none);
    return null;
  }
  let range;
  const scales = { x: { time: false } };
  if (log) {
    let [low, high] = extremes(sound(drawn).map((s) => ({ y: s.y.filter((y) => y > 0) })));
    if (!Number.isFinite(low)) { low = 1e-17; high = 1e-15; }
    const floor = Math.max(10 ** Math.floor(Math.log10(low)), 1e-20, 10 ** (Math.floor(Math.log10(high)) - 24));
    range = [floor, 10 ** Math.ceil(Math.log10(high) + 1e-9)];
    if (range[1] <= range[0]) range[1] = 10 * range[0];
    // What is closed to the last bit has no logarithm: it is drawn on the floor.
    for (const s of drawn) s.y = s.y.map((y) => (y === null ? null : Math.max(y, floor)));
    scales.y = { distr: 3, log: 10, range: () => range };
  } else {
    const [low, high] = extremes(sound(drawn));
    range = room(low, high);
    if (low >= 0 && low < 0.4 * high) range[0] = 0;
    scales.y = { range: () => range };
  }
  let data;
  if (drawn.every((s) => s.x === drawn[0].x)) data = [drawn[0].x, ...drawn.map((s) => s.y)];
  else data = uPlot.join(drawn.map((s) => [s.x, s.y]));
  const now = document.createElement('div');
  now.className = 'now';
  const u = new uPlot({
    width: width || host.clientWidth, height, scales,
    padding: [8, 12, 0, 0],
    cursor: { sync: sync ? { key: sync } : undefined, points: { size: 6 }, drag: { x: true, y: false } },
    legend: { show: false },
    axes: [
      axis(colours, { label: xlabel || 'time [s]', values: (_, v) => label(v), size: 32 }),
      axis(colours, log ? { size: 58, splits: decades, filter: (_, v) => v, values: (_, v) => v.map((x) => power(Math.round(Math.log10(x)))) } : { size: 58, values: (_, v) => label(v), space: 28 }),
    ],
    series: [{}, ...drawn.map((s) => ({ label: s.label, stroke: s.colour, width: s.width || 1.8, dash: s.dash, points: { show: s.y.length < 3 }, spanGaps: true }))],
    hooks: { ready: [(self) => { self.over.append(now); }] },
  }, data, host);
  if (seek) u.over.addEventListener('click', (e) => { if (Math.abs(e.movementX) < 3) seek(u.posToVal(e.offsetX, 'x')); });
  return {
    u,
    series: drawn,
    at(time) {
      const x = u.valToPos(time, 'x');
      now.style.transform = `translateX(${x}px)`;
      now.style.visibility = x < 0 || x > u.over.clientWidth ? 'hidden' : 'visible';
    },
    resize(w) { u.setSize({ width: w, height }); },
    destroy() { u.destroy(); },
  };
}

// A curve of y over x, x not being in order.
export function curves(host, series, { xlabel, ylabel, square, height = 380 }) {
  host.textContent = '';
  const colours = theme(), drawn = series.filter((s) => s.y.some((y, i) => y !== null && s.x[i] !== null));
  if (!drawn.length) { host.textContent = ''; return null; }
  const paint = (u, index) => {
    const s = drawn[index - 1], c = u.ctx;
    c.save();
    c.beginPath();
    c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    c.clip();
    c.strokeStyle = s.colour;
    c.lineWidth = 1.8 * devicePixelRatio;
    c.setLineDash((s.dash || []).map((d) => d * devicePixelRatio));
    c.beginPath();
    let pen = false;
    for (let i = 0; i < s.x.length; ++i) {
      if (s.x[i] === null || s.y[i] === null) { pen = false; continue; }
      const x = u.valToPos(s.x[i], 'x', true), y = u.valToPos(s.y[i], 'y', true);
      pen ? c.lineTo(x, y) : c.moveTo(x, y);
      pen = true;
    }
    c.stroke();
    c.restore();
    return null;
  };
  const range = (get) => {
    let low = Infinity, high = -Infinity;
    for (const s of sound(drawn)) for (const v of get(s)) if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
    return room(low, high);
  };
  const x = range((s) => s.x), y = range((s) => s.y);
  if (square) {  // a metre across is a metre up
    const metre = Math.max((x[1] - x[0]) / (host.clientWidth - 76), (y[1] - y[0]) / (height - 60));
    const widen = (r, pixels) => { const more = (metre * pixels - (r[1] - r[0])) / 2; if (more > 0) { r[0] -= more; r[1] += more; } };
    widen(x, host.clientWidth - 76);
    widen(y, height - 60);
  }
  return new uPlot({
    mode: 2, width: host.clientWidth, height, padding: [10, 14, 0, 0],
    cursor: { show: false }, legend: { show: false },
    scales: { x: { time: false, range: () => x }, y: { range: () => y } },
    axes: [axis(colours, { label: xlabel, values: (_, v) => label(v), size: 32 }), axis(colours, { label: ylabel, size: 62, values: (_, v) => label(v) })],
    series: [null, ...drawn.map(() => ({ paths: paint, facets: [{ scale: 'x', auto: true }, { scale: 'y', auto: true }] }))],
  }, [null, ...drawn.map((s) => [s.x, s.y])], host);
}
export { brief };
