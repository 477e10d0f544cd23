// The page of a fit: parameters with their errors, what the data leave open, and the residuals.
import { recording as page } from './data.js';
import { plain } from './number.js';
import { plot, theme } from './plots.js';

const $ = (id) => document.getElementById(id);
function make(tag, text, more = {}) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  return Object.assign(e, more);
}
const blue = '#0072b2', vermilion = '#d55e00';
const paper = matchMedia('print');
const fits = page.fits, models = page.model_comparison;
let fit = fits[0];
const unit_of = (column) => (column.unit ? ` [${column.unit}]` : '');
const is_number = (x) => typeof x === 'number' && Number.isFinite(x);
// As many digits as the error leaves.
function rounded(x, error) {
  if (!is_number(x)) return '–';
  if (!(error > 0) || x === 0) return plain(x, 8);
  return plain(x, Math.min(Math.max(Math.floor(Math.log10(Math.abs(x))) - Math.floor(Math.log10(error)) + 2, 2), 12));
}
function table(host, head, rows) {
  host.textContent = '';
  const top = make('tr');
  head.forEach((text, i) => top.append(make('th', text, { className: i === 0 ? 'words' : '' })));
  host.append(make('thead'), make('tbody'));
  host.tHead.append(top);
  for (const row of rows) {
    const tr = make('tr', null, { className: row.best ? 'exact' : '' });
    row.cells.forEach((cell, i) => tr.append(make('td', cell.text ?? cell, { className: `${i === 0 ? 'words' : ''}${cell.failed ? ' failed' : ''}` })));
    host.tBodies[0].append(tr);
  }
}

// ---- words
for (const id of ['solvers', 'look', 'recorded']) $(id).hidden = true;
$('fitted').hidden = $('residuals').hidden = false;
const title = page.scene.title || page.title || page.scene.file;
$('title').textContent = title;
$('setting').textContent = [...(title === page.scene.file ? [] : [page.scene.file]), `${fit.samples} samples of ${fit.recordings.length === 1 ? fit.recordings[0] : `${fit.recordings.length} recordings`}`].join(' · ');
{
  const lines = [];
  if (!fit.converged) lines.push(`The fit has not converged: ${fit.reason}.`);
  for (const sentence of fit.not_determined) lines.push(`${sentence[0].toUpperCase()}${sentence.slice(1)}.`);
  if (fit.converged && !fit.not_determined.length) lines.push('The fit has converged, and the data determine all parameters.');
  if (models) lines.push(`${models.verdict[0].toUpperCase()}${models.verdict.slice(1)}.`);
  for (const text of lines) $('verdict').append(make('p', text));
  if (!fit.converged || fit.not_determined.length) $('verdict').className = 'bad';
}
fits.forEach((f, i) => $('fit').append(make('option', f.scene, { value: String(i) })));
$('fit').parentElement.hidden = fits.length < 2;
$('fit').onchange = () => { fit = fits[Number($('fit').value)]; draw(); };

// ---- tables
function parameters() {
  table($('parameters'), ['parameter', 'value', 'standard error', '95 % interval', 'start', 'bounds'], fit.parameters.map((p) => {
    const bounds = p.lower_bound === null && p.upper_bound === null ? '–' : `${p.lower_bound === null ? '−∞' : plain(p.lower_bound)} … ${p.upper_bound === null ? '∞' : plain(p.upper_bound)}`;
    const value = !p.determined ? { text: 'not determined', failed: true } : rounded(p.value, p.standard_error);
    const error = p.at_bound === 'no' ? plain(p.standard_error, 2) : { text: `at its ${p.at_bound === 'low' ? 'lower' : 'upper'} bound`, failed: true };
    const interval = is_number(p.low_95) ? `${rounded(p.low_95, p.standard_error)} … ${rounded(p.high_95, p.standard_error)}` : '–';
    return { cells: [p.name, value, error, interval, plain(p.start), bounds] };
  }).concat(fit.combinations.map((c) => ({ cells: [c.expression, rounded(c.value, c.standard_error), plain(c.standard_error, 2), '–', '–', '–'] }))));
  $('findings').textContent = '';
  for (const text of [...fit.not_determined, ...fit.remarks]) $('findings').append(make('li', `${text[0].toUpperCase()}${text.slice(1)}.`));
  const names = fit.parameters.map((p) => p.name);
  $('correlation').hidden = names.length < 2;
  table($('correlations'), ['', ...names], names.map((name, i) => ({ cells: [name, ...fit.correlation[i].map((r) => ({ text: r === null ? '–' : plain(r, 3), failed: r !== null && Math.abs(r) > 0.95 && r < 1 - 1e-12 }))] })));
}
if (models) {
  $('models').hidden = false;
  table($('criteria'), ['scene', 'AIC', 'AICc', `${models.criterion} above the smallest`, 'Akaike weight'], fits.map((f, i) => ({
    best: f.scene === models.best, cells: [f.scene, plain(f.aic, 8), f.aicc === null ? '–' : plain(f.aicc, 8), plain(models.scenes[i].excess, 4), plain(models.scenes[i].weight, 4)] })));
  $('models-note').textContent = 'The weight of a scene is its probability if one of the scenes is the best one for other data too. Differences below 2 decide nothing.';
}
function levels() {
  table($('levels'), ['column', 'samples', 'rms residual', 'noise level', 'autocorrelation of residuals'], fit.columns.map((c) => ({
    cells: [c.name + unit_of(c), String(c.samples), plain(c.rms_residual, 3), `${plain(c.sigma, 3)} (${c.sigma_given ? 'given' : 'estimated'})`, { text: plain(c.autocorrelation, 2), failed: c.autocorrelation > 2.33 / Math.sqrt(c.samples) }] })));
}

// ---- pictures
// Counts of residuals in units of the noise level, with those of a normal distribution.
function histogram(values) {
  const svg = (tag, more) => { const e = document.createElementNS('http://www.w3.org/2000/svg', tag); for (const [k, v] of Object.entries(more)) e.setAttribute(k, v); return e; };
  const bins = 17, low = -4.25, wide = 0.5, counts = new Array(bins).fill(0);
  for (const v of values) counts[Math.min(Math.max(Math.floor((v - low) / wide), 0), bins - 1)] += 1;
  const expected = (x) => (values.length * wide * Math.exp(-x * x / 2)) / Math.sqrt(2 * Math.PI);
  const colours = theme(), most = Math.max(...counts, expected(0)) * 1.08, W = 300, H = 180, left = 34, bottom = 150;
  const X = (x) => left + ((x - low) / (bins * wide)) * (W - left - 8), Y = (n) => bottom - (n / most) * (bottom - 10);
  const out = svg('svg', { viewBox: `0 0 ${W} ${H}`, class: 'bars', role: 'img', 'aria-label': 'Histogram of the residuals' });
  counts.forEach((n, i) => out.append(svg('rect', { x: X(low + i * wide) + 0.5, width: X(wide) - X(0) - 1, y: Y(n), height: bottom - Y(n), fill: blue })));
  const path = Array.from({ length: 86 }, (_, i) => low + i * 0.1).map((x, i) => `${i ? 'L' : 'M'}${X(x).toFixed(1)} ${Y(expected(x)).toFixed(1)}`).join('');
  out.append(svg('path', { d: path, fill: 'none', stroke: vermilion, 'stroke-width': 2 }), svg('line', { x1: left, x2: W - 8, y1: bottom, y2: bottom, stroke: colours.line }));
  const word = (x, y, text, anchor) => { const e = svg('text', { x, y, fill: colours.soft, 'font-size': 11, 'text-anchor': anchor }); e.textContent = text; out.append(e); };
  for (const x of [-4, -2, 0, 2, 4]) word(X(x), bottom + 13, String(x).replace('-', '−'), 'middle');
  word((left + W) / 2, H - 2, 'residual / noise level', 'middle');
  word(left - 4, 16, String(Math.round(most / 1.08)), 'end');
  return out;
}
function figure(host, caption, series, options) {
  const f = make('figure'), box = make('div', null, { className: 'plot' });
  f.append(make('figcaption', caption), box);
  host.append(f);
  plot(box, series, { width: Math.max(box.clientWidth, 260), ...options });
}
function pictures() {
  const host = $('series');
  host.textContent = '';
  let left_out = false;
  for (const s of fit.series) {
    if (!s.t.length) continue;
    const column = fit.columns[s.column], where = fit.recordings.length > 1 ? `, ${fit.recordings[s.recording]}` : '';
    left_out = left_out || s.every > 1;
    figure(host, `${column.name}${unit_of(column)}${where}: measured (dots) and predicted (line)`, [
      { label: 'predicted', colour: vermilion, x: s.t, y: s.predicted, sound: true },
      { label: 'measured', colour: blue, dots: true, x: s.t, y: s.measured, sound: true }], { height: 200, sync: 'fit' });
    const pair = make('div', null, { className: 'pair' }), wide = make('div'), side = make('figure');
    host.append(pair);
    pair.append(wide, side);
    const off = s.measured.map((y, i) => (s.predicted[i] === null || !(column.sigma > 0) ? null : (y - s.predicted[i]) / column.sigma)), ends = [s.t[0], (s.t[0] + s.t[s.t.length - 1]) / 2, s.t[s.t.length - 1]];
    figure(wide, 'residual / noise level', [
      { label: 'residual', colour: blue, dots: true, x: s.t, y: off, sound: true },
      ...[-2, 0, 2].map((y) => ({ label: '', colour: theme().soft, dash: y ? [6, 4] : undefined, width: 1, x: ends, y: [y, y, y], above: true, sound: true }))], { height: 180, sync: 'fit' });
    side.append(make('figcaption', 'their number, and that of normal noise (line)'), histogram(off.filter(is_number)));
  }
  $('residuals-note').textContent = left_out ? 'A long series is drawn with a part of its samples. The table that --out writes has all of them.' : '';
}
$('csv-residuals').onclick = () => {
  const field = (x) => (x === null || x === undefined ? '' : /[",\n]/.test(String(x)) ? `"${String(x).replace(/"/g, '""')}"` : String(x));
  const lines = [['recording', 'column', 'unit', 't [s]', 'measured', 'predicted', 'residual']];
  for (const s of fit.series) s.t.forEach((t, i) => lines.push([fit.recordings[s.recording], fit.columns[s.column].name, fit.columns[s.column].unit, t, s.measured[i], s.predicted[i], s.predicted[i] === null ? null : s.measured[i] - s.predicted[i]]));
  const link = make('a', null, { href: URL.createObjectURL(new Blob([lines.map((l) => l.map(field).join(',')).join('\r\n') + '\r\n'], { type: 'text/csv' })), download: `${page.scene.file.replace(/\.[^.]*$/, '')}-residuals.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

const add = (key, text, code) => { const dd = make('dd'); dd.append(code ? make('code', text) : text); $('made').append(make('dt', key), dd); };
for (const command of page.commands) add('command', command, true);
add('made by', `linchpin ${page.linchpin}, ${page.compiler}; the scene runs on the host bare, in double precision`);
add('method', 'Gauss-Newton with damping and bounds; noise levels of the largest likelihood; intervals of Student’s t distribution');
if (page.scene.text) {
  $('scene-text').hidden = false;
  $('scene-text').querySelector('pre').textContent = page.scene.text;
}
function draw() {
  parameters();
  levels();
  pictures();
}
let width = 0;
window.addEventListener('resize', () => { if (window.innerWidth !== width && !paper.matches) { width = window.innerWidth; pictures(); } });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', pictures);
paper.addEventListener('change', (e) => { $('scene-text').open = e.matches; pictures(); });
draw();
width = window.innerWidth;
document.body.dataset.ready = document.body.dataset.drawn = 'yes';
