// The page of a sweep: a quantity over one parameter, or its map over two, with the answers that the scene knows.
import { recording as sweep } from './data.js';
import { brief, plain } from './number.js';
import { axis, label, room, theme } from './plots.js';
import uPlot from 'uplot';

const $ = (id) => document.getElementById(id);
function make(tag, text, more = {}) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  return Object.assign(e, more);
}
const blue = '#0072b2', vermilion = '#d55e00';
const parameters = sweep.parameters.length, first = 3 + parameters;
const ok = (row) => String(row[1 + parameters]).startsWith('ok');
const value = (row, c) => (ok(row) && Number.isFinite(row[first + c]) ? row[first + c] : null);
const known = (n, c) => { const k = sweep.columns[c].known; return k && Number.isFinite(k[n]) ? k[n] : null; };
const values = sweep.parameters.map((_, i) => [...new Set(sweep.rows.map((r) => r[1 + i]))].sort((a, b) => a - b));
const varied = values.map((v, i) => i).filter((i) => values[i].length > 1);

// ---- words
for (const id of ['solvers', 'look', 'recorded']) $(id).hidden = true;
$('swept').hidden = $('rows').hidden = false;
document.title = `${sweep.scene.file} – linchpin sweep`;
$('title').textContent = sweep.scene.file;
$('setting').textContent = [`${sweep.cases} ${sweep.cases === 1 ? 'case' : 'cases'}${sweep.random ? ', random samples' : ''}`,
  ...sweep.parameters.map((p, i) => (values[i].length === 0 ? p.name : values[i].length === 1 ? `${p.name} = ${plain(values[i][0])}`
    : `${p.name} from ${plain(values[i][0], 4)} to ${plain(values[i][values[i].length - 1], 4)}${sweep.random ? '' : `, ${values[i].length} values`}`))].join(' · ');
const verdict = [sweep.failed ? `${sweep.failed} of ${sweep.cases} cases failed; the table says why.` : `All ${sweep.cases} cases came to their end.`];
// How far the results are from the answers that follow the parameters.
sweep.columns.forEach((column, c) => {
  if (!column.known) return;
  let most = null;
  sweep.rows.forEach((row, n) => { const x = value(row, c), y = known(n, c); if (x !== null && y !== null) most = Math.max(most ?? 0, Math.abs(x - y)); });
  if (most !== null) verdict.push(most === 0 ? `${column.name} is the known answer in every case.` : `${column.name} is off the known answer by ${brief(most)} at most.`);
});
for (const line of verdict) $('verdict').append(make('p', line));
if (sweep.failed) $('verdict').className = 'bad';

// ---- choices
const choose = (id, list, now) => {
  list.forEach(([text, v]) => $(id).append(make('option', text, { value: String(v) })));
  $(id).value = String(now);
  $(id).onchange = draw;
};
const moves = sweep.columns.map((_, c) => new Set(sweep.rows.map((r) => value(r, c)).filter((x) => x !== null)).size > 1);
// The last is what was asked for on the command line; better one with a known answer.
let start = sweep.columns.findIndex((column) => column.known);
for (let c = sweep.columns.length - 1; c >= 0 && start < 0; --c) if (moves[c]) start = c;
choose('quantity', sweep.columns.map((c, i) => [c.name, i]), Math.max(start, 0));
choose('over', sweep.parameters.map((p, i) => [p.name, i]), varied[0] ?? 0);
choose('and', [['one parameter alone', -1], ...varied.map((i) => [sweep.parameters[i].name, i])], !sweep.random && varied.length > 1 ? varied[1] : -1);
choose('against', [['nothing', -1], ...sweep.columns.map((c, i) => [c.name, i])], -1);
if (varied.length < 2) $('over').parentElement.hidden = true;
if (varied.length < 2 || sweep.random) $('and').parentElement.hidden = true;
if (sweep.columns.length < 2) $('against').parentElement.hidden = true;
// Parameters that are on no axis stay at one of their values.
const fixed = sweep.parameters.map((p, i) => {
  const box = make('label', `${p.name} = `), select = make('select');
  values[i].forEach((v, k) => select.append(make('option', plain(v), { value: String(k) })));
  const own = p.own === null ? -1 : values[i].findIndex((v) => Math.abs(v - p.own) <= 1e-12 * Math.abs(p.own));
  select.value = String(Math.max(own, 0));
  select.onchange = draw;
  box.append(select);
  $('fixed').append(box);
  return { box, select };
});

// ---- pictures
let picture = null;
const limits = (list) => {
  let low = Infinity, high = -Infinity;
  for (const x of list) if (x !== null) { low = Math.min(low, x); high = Math.max(high, x); }
  return [low, high];
};

function dot(c, shape, x, y, r) {
  c.beginPath();
  if (shape === 'diamond') { c.moveTo(x, y - r); c.lineTo(x + r, y); c.lineTo(x, y + r); c.lineTo(x - r, y); c.closePath(); } else if (shape === 'cross') { c.moveTo(x - r, y - r); c.lineTo(x + r, y + r); c.moveTo(x + r, y - r); c.lineTo(x - r, y + r); } else c.arc(x, y, r, 0, 7);
}
function legend(entries) {
  $('swept-legend').textContent = '';
  for (const [text, colour, kind] of entries) {
    const one = make('span', null, { className: 'entry' }), canvas = make('canvas', null, { width: 44, height: 28 }), c = canvas.getContext('2d');
    c.scale(2, 2);
    c.strokeStyle = c.fillStyle = colour;
    c.lineWidth = 2;
    if (kind === 'line' || kind === 'dashed') { c.setLineDash(kind === 'dashed' ? [5, 3] : []); c.beginPath(); c.moveTo(0, 7); c.lineTo(22, 7); c.stroke(); }
    if (kind === 'line' || kind === 'dots') { dot(c, 'dot', 11, 7, 3); c.fill(); }
    if (kind === 'diamond' || kind === 'cross') { dot(c, kind, 11, 7, 4); kind === 'cross' ? c.stroke() : c.fill(); }
    one.append(canvas, text);
    $('swept-legend').append(one);
  }
}

// Curves and points in one plot: [{x, y, colour, line, dash, points}].
function curve(series, xname, yname) {
  const host = $('sweep-plot'), colours = theme(), ratio = devicePixelRatio;
  const xs = room(...limits(series.flatMap((s) => s.x))), ys = room(...limits(series.flatMap((s) => s.y)));
  const paint = (u, index) => {
    const s = series[index - 1], c = u.ctx;
    const at = s.x.map((x, i) => (s.y[i] === null ? null : [u.valToPos(x, 'x', true), s.kind === 'cross' ? u.bbox.top + u.bbox.height - 7 * ratio : u.valToPos(s.y[i], 'y', true)]));
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
    const r = (s.kind === 'diamond' || s.kind === 'cross' ? 5 : s.y.length > 400 ? 1.6 : s.y.length > 80 ? 2.4 : 3.4) * ratio;
    if (s.points) for (const p of at) if (p) { dot(c, s.kind, ...p, r); s.kind === 'cross' ? c.stroke() : c.fill(); }
    c.restore();
    return null;
  };
  const height = window.innerWidth < 560 ? 320 : 460;
  picture = new uPlot({
    mode: 2, width: host.clientWidth, height, padding: [12, 16, 0, 0], cursor: { show: false }, legend: { show: false },
    scales: { x: { time: false, range: () => xs }, y: { range: () => ys } },
    axes: [axis(colours, { label: xname, values: (_, v) => label(v), size: 34 }), axis(colours, { label: yname.length > 60 ? '' : yname, size: 66, values: (_, v) => label(v) })],
    series: [null, ...series.map(() => ({ paths: paint, facets: [{ scale: 'x', auto: true }, { scale: 'y', auto: true }] }))],
  }, [null, ...series.map((s) => [s.x, s.y])], host);
}

// Dark to light without hue alone: anchors of viridis, which prints in grey and is seen by all.
const scale = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function shade(s) {
  const at = Math.min(Math.max(s, 0), 1) * (scale.length - 1), i = Math.min(Math.floor(at), scale.length - 2), f = at - i;
  return `rgb(${scale[i].map((a, k) => Math.round(a + (scale[i + 1][k] - a) * f)).join(',')})`;
}
const nice = (low, high, n) => {
  const raw = (high - low) / n, p = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((m) => m * p).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) out.push(Math.abs(v) < 1e-9 * step ? 0 : v);
  return out;
};
function map(cells, xs, ys, xname, yname, marks) {
  const host = $('sweep-plot'), colours = theme(), width = host.clientWidth, height = window.innerWidth < 560 ? 340 : 480, ratio = devicePixelRatio;
  const canvas = make('canvas', null, { width: width * ratio, height: height * ratio, className: 'map' }), c = canvas.getContext('2d');
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  host.append(canvas);
  c.scale(ratio, ratio);
  const left = 70, right = width - 96, top = 12, bottom = height - 46;
  const edges = (v) => [v[0] - (v[1] - v[0]) / 2, ...v.slice(1).map((b, i) => (v[i] + b) / 2), v[v.length - 1] + (v[v.length - 1] - v[v.length - 2]) / 2];
  const ex = edges(xs), ey = edges(ys), span = (e) => e[e.length - 1] - e[0];
  const X = (v) => left + ((v - ex[0]) / span(ex)) * (right - left), Y = (v) => bottom - ((v - ey[0]) / span(ey)) * (bottom - top);
  const [low, high] = limits(cells.flat()), one = !(high - low > 1e-12 * Math.max(Math.abs(low), Math.abs(high))), to = (v) => (one ? 0.5 : (v - low) / (high - low));
  cells.forEach((column, i) => column.forEach((v, k) => {
    const x = X(ex[i]), y = Y(ey[k + 1]), w = X(ex[i + 1]) - x, h = Y(ey[k]) - y;
    c.fillStyle = v === null ? colours.line : shade(to(v));
    c.fillRect(x, y, w + 0.6, h + 0.6);
    if (v !== null) return;
    c.strokeStyle = vermilion;
    c.lineWidth = 1.5;
    const r = Math.min(w, h, 12) / 3;
    dot(c, 'cross', x + w / 2, y + h / 2, r);
    c.stroke();
  }));
  c.strokeStyle = colours.line;
  c.strokeRect(left, top, right - left, bottom - top);
  c.fillStyle = c.strokeStyle = colours.soft;
  c.lineWidth = 1;
  c.font = '12px system-ui, "Segoe UI", Roboto, Arial, sans-serif';
  const tick = (x, y, dx, dy) => { c.beginPath(); c.moveTo(x, y); c.lineTo(x + dx, y + dy); c.stroke(); };
  c.textAlign = 'center';
  c.textBaseline = 'top';
  const tx = nice(ex[0], ex[ex.length - 1], Math.max(2, (right - left) / 80)), ty = nice(ey[0], ey[ey.length - 1], (bottom - top) / 45);
  label(tx).forEach((text, i) => { tick(X(tx[i]), bottom, 0, 4); c.fillText(text, X(tx[i]), bottom + 7); });
  c.fillText(xname, (left + right) / 2, bottom + 27);
  c.textAlign = 'right';
  c.textBaseline = 'middle';
  label(ty).forEach((text, i) => { tick(left, Y(ty[i]), -4, 0); c.fillText(text, left - 8, Y(ty[i])); });
  c.save();
  c.translate(12, (top + bottom) / 2);
  c.rotate(-Math.PI / 2);
  c.textAlign = 'center';
  c.fillText(yname, 0, 0);
  c.restore();
  const bar = right + 18;
  for (let y = top; y < bottom; ++y) { c.fillStyle = shade((bottom - y) / (bottom - top)); c.fillRect(bar, y, 14, 1.4); }
  c.fillStyle = colours.soft;
  c.textAlign = 'left';
  if (!one) { const t = nice(low, high, (bottom - top) / 50); label(t).forEach((text, i) => c.fillText(text, bar + 19, bottom - to(t[i]) * (bottom - top))); } else if (Number.isFinite(low)) c.fillText(plain(low, 5), bar + 19, (top + bottom) / 2);
  for (const [x, y] of marks) {
    c.fillStyle = vermilion;
    c.strokeStyle = '#fff';
    c.lineWidth = 1.5;
    dot(c, 'diamond', X(x), Y(y), 7);
    c.fill();
    c.stroke();
  }
  picture = { destroy() { canvas.remove(); } };
}

function draw() {
  if (picture) picture.destroy();
  picture = null;
  $('sweep-plot').textContent = '';
  const q = Number($('quantity').value), over = Number($('over').value), other = Number($('against').value), column = sweep.columns[q];
  let and = Number($('and').value);
  if (and === over) { and = -1; $('and').value = '-1'; }
  const free = (i) => i === over || i === and || sweep.random || values[i].length < 2;
  fixed.forEach((f, i) => { f.box.hidden = free(i); });
  const chosen = sweep.rows.map((row, n) => [row, n]).filter(([row]) => fixed.every((f, i) => free(i) || row[1 + i] === values[i][Number(f.select.value)]));
  const name = (i) => sweep.parameters[i].name, own = sweep.parameters.map((p) => p.own);
  const inside = (i) => own[i] !== null && values[i].length > 0 && own[i] >= values[i][0] && own[i] <= values[i][values[i].length - 1];
  // The one place where an answer that is a number is known to be true.
  const here = column.at_own !== null && !column.known && sweep.parameters.every((_, i) => (i === over || i === and ? inside(i) : values[i].length === 1 || sweep.random ? values[i][0] === own[i] : values[i][Number(fixed[i].select.value)] === own[i]));
  if (and >= 0 && !sweep.random) {
    const cells = values[over].map(() => values[and].map(() => null));
    let off = 0;
    for (const [row, n] of chosen) {
      let v = value(row, q);
      const less = other >= 0 ? value(row, other) : null;
      if (other >= 0) v = v === null || less === null ? null : v - less;
      cells[values[over].indexOf(row[1 + over])][values[and].indexOf(row[1 + and])] = v;
      const k = known(n, q);
      if (v !== null && k !== null && other < 0) off = Math.max(off, Math.abs(v - k));
    }
    map(cells, values[over], values[and], name(over), name(and), here && other < 0 ? [[own[over], own[and]]] : []);
    const entries = [];
    if (cells.flat().some((v) => v === null)) entries.push(['failed', vermilion, 'cross']);
    if (here && other < 0) entries.push([`known here: ${plain(column.at_own, 8)}`, vermilion, 'diamond']);
    legend(entries);
    $('sweep-note').textContent = (other >= 0 ? `${column.name}, less ${sweep.columns[other].name}` : column.name) + (column.known && other < 0 ? `; the known answer is no further off than ${brief(off)}` : '');
  } else {
    const sorted = chosen.slice().sort((a, b) => a[0][1 + over] - b[0][1 + over]);
    const x = sorted.map(([row]) => row[1 + over]), scatter = sweep.random;
    const series = [{ x, y: sorted.map(([row]) => value(row, q)), colour: blue, line: !scatter, points: true, kind: 'dot' }], entries = [[column.name, blue, scatter ? 'dots' : 'line']];
    const answer = sorted.map(([, n]) => known(n, q));
    if (answer.some((y) => y !== null)) { series.push({ x, y: answer, colour: vermilion, line: !scatter, points: scatter, kind: 'dashed' }); entries.push(['known answer', vermilion, scatter ? 'dots' : 'dashed']); }
    if (here) { series.push({ x: [own[over]], y: [column.at_own], colour: vermilion, points: true, kind: 'diamond' }); entries.push([`known at ${name(over)} = ${plain(own[over])}: ${plain(column.at_own, 8)}`, vermilion, 'diamond']); }
    if (other >= 0) { series.push({ x, y: sorted.map(([row]) => value(row, other)), colour: '#009e73', line: !scatter, points: scatter, kind: 'dashed' }); entries.push([sweep.columns[other].name, '#009e73', scatter ? 'dots' : 'dashed']); }
    const lost = sorted.filter(([row]) => !ok(row)).map(([row]) => row[1 + over]);
    if (lost.length) { series.push({ x: lost, y: lost.map(() => 0), colour: vermilion, points: true, kind: 'cross', marks: true }); entries.push(['failed', vermilion, 'cross']); }
    const drawn = series.filter((s) => !s.marks);
    if (drawn.some((s) => s.y.some((y) => y !== null))) curve(series.map((s) => (s.marks ? { ...s, y: s.y.map(() => limits(drawn.flatMap((d) => d.y))[0]) } : s)), name(over), column.name);
    else $('sweep-plot').append(make('div', 'nothing to draw: no case has this quantity', { className: 'none' }));
    legend(entries);
    $('sweep-note').textContent = '';
  }
  document.body.dataset.drawn = $('sweep-plot').childElementCount ? 'yes' : 'no';
}

// ---- table and downloads
const most = 400;
{
  const names = ['case', ...sweep.parameters.map((p) => p.name), 'status', sweep.end, ...sweep.columns.map((c) => c.name)];
  const shown = sweep.failed ? [...sweep.rows.filter((r) => !ok(r)), ...sweep.rows.filter(ok)] : sweep.rows;
  const head = make('tr');
  names.forEach((text, i) => head.append(make('th', text, { className: i === 1 + parameters ? 'words' : '' })));
  $('cases').append(make('thead'), make('tbody'));
  $('cases').tHead.append(head);
  for (const row of shown.slice(0, most)) {
    const tr = make('tr');
    row.forEach((x, i) => {
      const text = typeof x === 'number' ? plain(x, 8) : x ?? '–', td = make('td', text, { className: typeof x === 'string' ? 'words' + (i === 1 + parameters && !ok(row) ? ' failed' : '') : '' });
      if (typeof x === 'number') td.dataset.value = String(x);
      tr.append(td);
    });
    $('cases').tBodies[0].append(tr);
  }
  const words = [];
  if (sweep.every > 1) words.push(`This page has one of ${sweep.every} cases, the table of the command all.`);
  if (shown.length > most) words.push(`${most} of ${shown.length} rows are shown${sweep.failed ? ', failed ones first' : ''}; the download has all.`);
  $('rows-note').textContent = words.join(' ');
  const field = (x) => (x === null || x === undefined ? '' : /[",\n]/.test(String(x)) ? `"${String(x).replace(/"/g, '""')}"` : String(x));
  $('csv-cases').onclick = () => {
    const link = make('a', null, { href: URL.createObjectURL(new Blob([[names, ...sweep.rows].map((l) => l.map(field).join(',')).join('\r\n') + '\r\n'], { type: 'text/csv' })), download: `${sweep.scene.file.replace(/\.[^.]*$/, '')}-sweep.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
}
const add = (key, text, code) => { const dd = make('dd'); dd.append(code ? make('code', text) : text); $('made').append(make('dt', key), dd); };
for (const command of sweep.commands) add('command', command, true);
add('made by', `linchpin ${sweep.linchpin}, ${sweep.compiler}; cases run on the host bare, in double precision`);
if (sweep.scene.text) {
  $('scene-text').hidden = false;
  $('scene-text').querySelector('pre').textContent = sweep.scene.text;
}

let width = 0;
const paper = matchMedia('print');
window.addEventListener('resize', () => { if (window.innerWidth !== width && !paper.matches) { width = window.innerWidth; draw(); } });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
paper.addEventListener('change', (e) => { $('scene-text').open = e.matches; draw(); });
draw();
width = window.innerWidth;
document.body.dataset.ready = 'yes';
