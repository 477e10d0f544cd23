// Plots over time that share a cursor, and one of any two quantities.
import uPlot from 'uplot';
import { label, power, ticks } from './number.js';

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

// An axis whose ticks are so labelled, and the words for the corner of the plot.
function upright(colours, more) {
  const corner = document.createElement('div');
  corner.className = 'base';
  return [axis(colours, { ...more, values: (_, v) => { const { text, base } = ticks(v); corner.textContent = base; return text; } }), corner];
}

/// A piece of a line, for legends and tables, on paper too.
export function swatch(colour, dash) {
  const make = (tag, more) => { const e = document.createElementNS('http://www.w3.org/2000/svg', tag); for (const [k, v] of Object.entries(more)) e.setAttribute(k, v); return e; };
  const svg = make('svg', { class: 'swatch', width: 34, height: 8, viewBox: '0 0 34 8', 'aria-hidden': 'true', 'data-line': `${colour} ${dash || ''}` });
  svg.append(make('line', { x1: 0, x2: 34, y1: 4, y2: 4, stroke: colour, 'stroke-width': 2.6, ...(dash ? { 'stroke-dasharray': dash.join(' ') } : {}) }));
  return svg;
}

// Where a curve lies on one that is drawn above it, it is made wider and looks out on both sides.
function widths(series, span) {
  const near = (a, b, get, room) => {
    const n = Math.min(a.length, 200);
    let same = 0, all = 0;
    for (let i = 0; i < n; ++i) {
      const u = a[Math.round((i * (a.length - 1)) / Math.max(n - 1, 1))], v = b[Math.round((i * (b.length - 1)) / Math.max(n - 1, 1))];
      if (u === null || v === null) continue;
      ++all;
      same += Math.abs(get(u) - get(v)) <= room ? 1 : 0;
    }
    return all > 0 && same >= 0.5 * all;
  };
  series.forEach((s, i) => {
    const above = series.slice(0, i).filter((o) => !o.above && near(s.y, o.y, span.y, span.high) && (!span.x || near(s.x, o.x, (x) => x, span.x)));
    if (!s.above && above.length === 1) s.width = Math.min((above[0].width || 1.8) + 2.4, 4.2);  // of many it would be a ribbon
  });
}

// series: [{label, colour, dash, dots, x, y}], each on its own times; dots without a line. Returns null where there is
// nothing to draw.
export function plot(host, series, { log = false, across = 's', xlabel, height = 180, sync, seek, width, duration = 1 }) {
  host.textContent = '';
  host.style.minHeight = '';
  const colours = theme();
  const drawn = series.filter((s) => s.y.some((y) => y !== null));
  if (!drawn.length) {
    const none = document.createElement('div');
    none.className = 'none';
    none.textContent = 'There is nothing to draw: no run has this quantity.';
    host.append(none);
    return null;
  }
  let range;
  // One state alone has the time that the run should have had.
  const scales = { x: { time: false, range: (_, low, high) => (high > low ? [low, high] : [low, low + duration]) } };
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
  const lines = drawn.filter((s) => !s.dots);
  if (log) widths(lines, { y: (y) => Math.log10(y), high: 0.012 * Math.log10(range[1] / range[0]) });
  else widths(lines, { y: (y) => y, high: 0.012 * (range[1] - range[0]) });
  drawn.sort((a, b) => (a.above ? 1 : 0) - (b.above ? 1 : 0) || (a.above ? 0 : series.indexOf(b) - series.indexOf(a)));  // the first on top, below its parts
  let data;
  if (drawn.every((s) => s.x === drawn[0].x)) data = [drawn[0].x, ...drawn.map((s) => s.y)];
  else data = uPlot.join(drawn.map((s) => [s.x, s.y]));
  host.style.minHeight = `${height}px`;  // at once, for the layout: the plot itself takes it later
  const now = document.createElement('div'), [up, corner] = upright(colours, { size: 58, space: 28 });
  now.className = 'now';
  const u = new uPlot({
    width: width || host.clientWidth, height, scales,
    padding: [8, 20, 0, 0],
    cursor: { sync: sync ? { key: sync } : undefined, points: { size: 6 }, drag: { x: true, y: false } },
    legend: { show: false },
    axes: [
      axis(colours, { label: xlabel || 'time [s]', values: (_, v) => label(v), size: 32 }),
      log ? axis(colours, { size: 58, splits: decades, filter: (_, v) => v, values: (_, v) => v.map((x) => power(Math.round(Math.log10(x)))) }) : up,
    ],
    series: [{}, ...drawn.map((s) => ({ label: s.label, stroke: s.colour, width: s.width || 1.8, dash: s.dash, points: { show: s.y.length < 3 }, spanGaps: true, ...(s.dots ? { paths: () => null, points: { show: true, size: s.y.length > 400 ? 3 : 5, width: 0, fill: s.colour } } : {}) }))],
    hooks: { ready: [(self) => { self.over.append(now, corner); }] },
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
export function curves(host, series, { xlabel, ylabel, square, height = 380, width = 0 }) {
  host.textContent = '';
  host.style.minHeight = `${height}px`;
  const across = width || host.clientWidth;
  const colours = theme(), drawn = series.filter((s) => s.y.some((y, i) => y !== null && s.x[i] !== null));
  if (!drawn.length) { host.textContent = ''; return null; }
  const paint = (u, index) => {
    const s = drawn[index - 1], c = u.ctx;
    c.save();
    c.beginPath();
    c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    c.clip();
    c.strokeStyle = s.colour;
    c.lineWidth = (s.width || 1.8) * devicePixelRatio;
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
    const metre = Math.max((x[1] - x[0]) / (across - 82), (y[1] - y[0]) / (height - 60));
    const widen = (r, pixels) => { const more = (metre * pixels - (r[1] - r[0])) / 2; if (more > 0) { r[0] -= more; r[1] += more; } };
    widen(x, across - 82);
    widen(y, height - 60);
  }
  widths(drawn, { y: (v) => v, high: 0.012 * (y[1] - y[0]), x: 0.012 * (x[1] - x[0]) });
  drawn.reverse();  // the first on top
  const [up, corner] = upright(colours, { label: ylabel, size: 62 });
  return new uPlot({
    mode: 2, width: across, height, padding: [10, 20, 0, 0],
    hooks: { ready: [(self) => { self.over.append(corner); }] },
    cursor: { show: false }, legend: { show: false },
    scales: { x: { time: false, range: () => x }, y: { range: () => y } },
    axes: [axis(colours, { label: xlabel, values: (_, v) => label(v), size: 32 }), up],
    series: [null, ...drawn.map(() => ({ paths: paint, facets: [{ scale: 'x', auto: true }, { scale: 'y', auto: true }] }))],
  }, [null, ...drawn.map((s) => [s.x, s.y])], host);
}

