// Puts the page together: words and table from the recording, plots, playback.
import { Motion, recording } from './data.js';
import { brief, plain } from './number.js';
import { curves, plot, theme } from './plots.js';
import { View } from './view.js';

const $ = (id) => document.getElementById(id);
function make(tag, text, more = {}) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  return Object.assign(e, more);
}

// Okabe and Ito's colours: exact blue, the first native vermilion.
const natives = ['#d55e00', '#009e73', '#cc79a7', '#e69f00', '#7f7f7f', '#8c6d31'];
const exacts = ['#0072b2', '#56b4e9'];
const dashes = [undefined, [7, 4], [2, 3], [9, 3, 2, 3]];
const rows = recording.comparison.solvers;
let native = 0, exact = 0;
const runs = rows.map((row, i) => {
  const ours = row.name === 'exact', n = ours ? exact++ : native++, colours = ours ? exacts : natives;
  const motion = recording.motions[i];
  const precisions = new Set(rows.map((r) => r.precision)).size > 1 || rows.filter((r) => r.name === row.name).length > 1;
  return {
    row, index: i, ours, label: row.name + (precisions ? ', ' + row.precision : ''), colour: colours[n % colours.length],
    dash: ours ? dashes[n % 2 ? 1 : 0] : dashes[(Math.floor(n / natives.length) + (row.precision === 'single' ? 1 : 0)) % 4],
    motion: motion && motion.frames > 0 ? new Motion(motion) : null, shown: true,
  };
});
const moving = runs.filter((r) => r.motion);
const ran = (row) => String(row.status || '').startsWith('ok');

// ---- words
const title = recording.scene.file;
document.title = `${title} – linchpin report`;
$('title').textContent = title;
const c = recording.comparison;
const bits = [`${c.bodies} ${c.bodies === 1 ? 'body' : 'bodies'}`, `${c.joints} ${c.joints === 1 ? 'constraint' : 'constraints'}`,
  `${plain(c.duration)} s in steps of ${plain(c.dt)} s`];
if (c.settle) bits.push(`first ${c.settle} steps not counted`);
if (Array.isArray(c.gravity)) bits.push(`gravity (${c.gravity.map((x) => plain(x)).join(', ')}) m/s²`);
$('setting').textContent = bits.join(' · ');
for (const line of recording.verdict || []) $('verdict').append(make('p', line));
const expected = rows.flatMap((row) => row.expect || []).filter((v) => typeof v.met === 'boolean');
const missed = expected.filter((v) => !v.met);
if (expected.length) $('verdict').append(make('p', missed.length
  ? `${missed.length} of ${expected.length} known answers of the scene not met: ${missed.map((v) => v.value).join(', ')}.`
  : `All ${expected.length} known answers of the scene are met.`));
if (missed.length || rows.some((r) => r.name === 'exact' && !ran(r))) $('verdict').className = 'bad';
for (const line of recording.notes || []) $('notes').append(make('li', line));

// ---- table
const columns = [
  ['time per step', 'µs', (r) => (typeof r.ns_per_step === 'number' ? r.ns_per_step / 1000 : null), (x) => (x === null ? '–' : x.toFixed(1))],
  ['largest gap', 'm', (r) => r.max_gap_m], ['rms gap', 'm', (r) => r.rms_gap_m], ['largest gap', 'rad', (r) => r.max_gap_rad],
  ['energy error', 'J', (r) => r.max_energy_error_J], ['force error', 'relative, rms', (r) => r.force_rms_error_rel],
  ['impulse error', 'relative, rms', (r) => r.impulse_rms_error_rel],
];
const value = (x) => (typeof x === 'number' && Number.isFinite(x) ? x : null);
const user = Object.keys(rows.reduce((all, r) => Object.assign(all, r.user_gaps), {}));
if (user.length && user.length <= 4) for (const name of user) columns.push([name, 'residual', (r) => (r.user_gaps || {})[name]]);
const used = columns.filter(([, , get]) => rows.some((r) => value(get(r)) !== null));
{
  const head = make('tr');
  head.append(make('th', 'solver', { className: 'words' }), make('th', 'precision', { className: 'words' }));
  for (const [name, unit] of used) { const th = make('th', name); th.append(make('small', `[${unit}]`)); head.append(th); }
  const steps = rows.some((r) => r.fallbacks > 0);
  if (steps) head.append(make('th', 'fallbacks'));
  head.append(make('th', 'status', { className: 'words' }));
  $('table').append(make('thead'), make('tbody'));
  $('table').tHead.append(head);
  for (const run of runs) {
    const tr = make('tr', null, { className: run.ours ? 'exact' : '' }), name = make('td', null, { className: 'words' });
    const swatch = make('span', null, { className: 'swatch' });
    swatch.style.borderTopColor = run.colour;
    swatch.style.borderTopStyle = run.dash ? 'dashed' : 'solid';
    name.append(swatch, run.row.name);
    tr.append(name, make('td', run.row.precision, { className: 'words' }));
    for (const [label, unit, get, format] of used) {
      const x = value(get(run.row)), td = make('td', format ? format(x) : brief(x));
      td.dataset.value = x === null ? '' : String(x);
      td.dataset.column = `${label} [${unit}]`;
      const others = rows.filter(ran).map((r) => value(get(r))).filter((y) => y !== null);
      if (x !== null && others.length > 1 && x === Math.min(...others) && ran(run.row)) td.className = 'best';
      tr.append(td);
    }
    if (steps) tr.append(make('td', run.row.fallbacks));
    tr.append(make('td', run.row.status, { className: 'words ' + (ran(run.row) ? '' : 'failed') }));
    $('table').tBodies[0].append(tr);
  }
}

// ---- provenance
const made = [['command', recording.commands.join('\n')], ['linchpin', `${recording.linchpin}, ${recording.compiler}`]];
const hosts = [...new Set(rows.map((r) => (r.method || {}).host).filter(Boolean))];
if (hosts.length) made.push(['host', hosts.join(', ')]);
else if (c.host) made.push(['host', c.host === 'bare' ? 'none: linchpin’s own stepper' : c.host]);
else if (/bullet/.test(rows.map((r) => r.name).join()) || rows.length) made.push(['host', 'Bullet Physics']);
made.push(recording.scene.bytes ? ['scene file', `${recording.scene.file}, ${recording.scene.bytes} bytes${recording.scene.text ? ', below' : ''}`] : ['scene', `${recording.scene.file}, made by a program`]);
made.push(['steps', `${plain(c.dt, 17)} s × ${rows.length ? Math.max(...rows.map((r) => r.steps || 0)) : 0}`]);
for (const [name, text] of made) {
  const dd = make('dd');
  if (name === 'command') text.split('\n').forEach((line, i) => { if (i) dd.append(make('br')); dd.append(make('code', line)); });
  else dd.textContent = text;
  $('made').append(make('dt', name), dd);
}
{
  const head = make('tr'), body = make('tbody');
  for (const name of ['solver', 'precision', 'iterations', 'integrator', 'what holds joints together']) head.append(make('th', name, { className: 'words' }));
  $('methods').append(make('thead'), body);
  $('methods').tHead.append(head);
  for (const { row } of runs) {
    const tr = make('tr'), m = row.method || {};
    for (const text of [row.name, row.precision, m.iterations ?? '–', m.integrator ?? '–', m.stabilisation ?? '–']) tr.append(make('td', text, { className: 'words' }));
    body.append(tr);
  }
}
if (recording.scene.text) {
  $('scene-text').hidden = false;
  $('scene-text').querySelector('pre').textContent = recording.scene.text;
}
if (moving.length) {
  const m = moving[0].motion, rate = 1 / m.step;
  $('sampling').textContent = m.every === 1
    ? 'Plots and playback have every step. Numbers of the table are of every step, in full precision; plots hold single precision.'
    : `Plots and playback have ${plain(rate, 3)} frames a second, one of ${m.every} steps: gap and energy are the worst since the frame before, forces those at the frame. Numbers of the table are of every step.`;
}

// ---- playback
const end = moving.length ? Math.max(...moving.map((r) => r.motion.end)) : 0;
const begin = moving.length ? Math.min(...moving.map((r) => r.motion.begin)) : 0;
let time = begin, playing = false, last = 0, view = null, plots = [];
let solid = moving.find((r) => r.ours) || moving[0] || null;
let ghost = moving.find((r) => r !== solid && !r.ours && (!solid || r.row.precision === solid.row.precision)) || moving.find((r) => r !== solid) || null;

function show() {
  $('scrub').value = String(end > begin ? (time - begin) / (end - begin) : 0);
  $('clock').textContent = `${time.toFixed(end < 1 ? 3 : 2)} s`;
  if (view) view.show(time);
  for (const p of plots) p.at(time);
  document.body.dataset.time = String(time);
}
function seek(t) { time = Math.min(Math.max(t, begin), end); show(); }
function tick(now) {
  if (!playing) return;
  time += Math.min(Math.max(now - last, 0) / 1000, 0.1) * Number($('speed').value);
  last = now;
  if (time >= end) { time = end; play(false); }
  show();
  if (playing) requestAnimationFrame(tick);
}
function play(on) {
  playing = on && end > begin;
  $('play').textContent = playing ? '❚❚' : '▶';
  $('play').setAttribute('aria-label', playing ? 'Pause' : 'Play');
  if (!playing) return;
  if (time >= end) time = begin;
  last = performance.now();
  requestAnimationFrame(tick);
}
$('play').onclick = () => play(!playing);
$('scrub').oninput = () => { play(false); seek(begin + $('scrub').value * (end - begin)); };
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey || /^(SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  if (e.target.tagName === 'BUTTON' && e.key === ' ') return;
  const step = moving.length ? moving[0].motion.step * (e.shiftKey ? 10 : 1) : 0, speeds = [...$('speed').options];
  const keys = {
    ' ': () => play(!playing), ArrowLeft: () => { play(false); seek(time - step); }, ArrowRight: () => { play(false); seek(time + step); },
    ArrowUp: () => { $('speed').selectedIndex = Math.min($('speed').selectedIndex + 1, speeds.length - 1); },
    ArrowDown: () => { $('speed').selectedIndex = Math.max($('speed').selectedIndex - 1, 0); },
    Home: () => seek(begin), End: () => seek(end), 0: () => view && (view.home(), view.draw()),
  };
  if (!keys[e.key]) return;
  e.preventDefault();
  keys[e.key]();
});

// ---- 3D
const dark = matchMedia('(prefers-color-scheme: dark)'), paper = matchMedia('print');
const stage = () => (dark.matches && !paper.matches ? { still: 0x8792a2, edge: 0x0b0e12, rod: 0xaab4c2, grid: 0x5a6676 } : { still: 0x9aa3af, edge: 0x10243a, rod: 0x4a5566, grid: 0xb0b8c4 });
function no3d(why) {
  $('nogl').hidden = false;
  $('nogl').textContent = why;
  $('canvas').hidden = true;
  $('view').classList.add('flat');
  for (const id of ['solid', 'ghost', 'arrows', 'paths']) $(id).parentElement.hidden = true;
  $('home').hidden = true;
  $('hint3d').hidden = true;
  document.body.dataset.webgl = 'no';
}
const spatial = moving.filter((r) => r.motion.bodies.length);
if (!moving.length) {
  $('look').hidden = true;
  $('phase-card').hidden = true;
} else if (!spatial.length) {
  no3d('The scene is in coordinates of its own, which have no place in space: the plots have them all.');
} else {
  try {
    view = new View($('canvas'), c.gravity);
    document.body.dataset.webgl = 'yes';
  } catch (e) {
    no3d('This browser has no WebGL, so there is no 3D view. Plots, table and downloads have everything; the time can be moved all the same.');
  }
}
function stageRuns() {
  if (!view) return;
  view.set(solid, ghost, stage());
  view.options($('arrows').checked, $('paths').checked);
  $('scale').textContent = (view.newtons > 0 && $('arrows').checked ? `an arrow of ${plain(view.arrow, 2)} m is ${plain(view.newtons, 2)} N · ` : '') + `grid ${plain(view.cell)} m`;
  view.show(time);
}
for (const [id, none] of [['solid', false], ['ghost', true]]) {
  if (none) $(id).append(make('option', 'none', { value: '' }));
  for (const run of spatial) $(id).append(make('option', run.label, { value: String(run.index) }));
  const chosen = id === 'solid' ? solid : ghost;
  $(id).value = chosen ? String(chosen.index) : '';
  $(id).onchange = () => {
    const run = runs[Number($(id).value)] || null;
    if (id === 'solid') solid = run; else ghost = $(id).value === '' ? null : run;
    stageRuns();
  };
}
if (spatial.length < 2) for (const id of ['solid', 'ghost']) $(id).parentElement.hidden = true;
for (const id of ['arrows', 'paths']) $(id).onchange = stageRuns;
$('home').onclick = () => view && (view.home(), view.draw());

// ---- plots
// Coordinates and what the scene logs: quantities that somebody asked for.
const quantities = [], own = [];
const links = moving.length ? moving[0].motion.links : [];
$('link').append(make('option', links.length > 1 ? 'the worst of all' : 'all', { value: '-1' }));
links.forEach((link, i) => $('link').append(make('option', link.name, { value: String(i) })));
if (links.length === 1) $('link').value = '0';
if (links.length < 2) $('link').parentElement.hidden = true;
const many = (i) => (i >= 0 ? links[i].name : links.length > 1 ? 'largest of all constraints' : '');

function timed() {
  const shown = moving.filter((r) => r.shown), link = Number($('link').value);
  const unit = moving[0].motion.gapUnit(link), name = many(link);
  const line = (r, y, more) => ({ sound: ran(r.row), label: r.label, colour: r.colour, dash: r.dash, x: r.x || (r.x = Array.from(r.motion.t)), y, ...more });
  $('gap-title').textContent = `Gap [${unit || 'the constraint’s own unit'}]${name ? ', ' + name : ''}`;
  $('energy-title').textContent = 'Energy, change since the start [J]';
  const forces = shown.map((r) => line(r, r.motion.forces(link)));
  const one = shown.find((r) => r.ours && r.motion.stabilisation) || shown.find((r) => r.motion.nonideal);
  const there = [];
  if (link >= 0 && one) {
    const dashed = { ideal: ['#009e73', [6, 3], 'ideal'], nonideal: ['#cc79a7', [2, 3], 'nonideal'], stabilisation: ['#7f7f7f', [1, 4], 'stabilisation'] };
    for (const [key, [colour, dash, label]] of Object.entries(dashed)) {
      const y = one.motion.part(key, link);
      if (!y || !y.some((v) => v)) continue;
      forces.push(line(one, y, { label, colour, dash, width: 1.4 }));
      there.push([label, colour, dash]);
    }
  }
  $('force-title').textContent = `Reaction [N]${name ? ', ' + name : ''}`;
  if (there.length) $('force-title').append('; parts of ' + one.label + ':');
  for (const [label, colour] of there) {
    const swatch = make('span', null, { className: 'swatch part' });
    swatch.style.borderTopColor = colour;
    $('force-title').append(swatch, label);
  }
  return [
    ['gap', shown.map((r) => line(r, r.motion.gaps(link))), { log: true }],
    ['energy', shown.filter((r) => r.motion.energy).map((r) => line(r, r.motion.column(r.motion.energy, 1, 0))), {}],
    ['force', forces, {}],
    ...(own.length ? [['value', shown.map((r) => line(r, own[Number($('own').value)][1](r.motion))), {}]] : []),
  ];
}
const shownRuns = () => moving.filter((r) => r.shown).length;
function drawPlots() {
  if (!moving.length) return;
  for (const p of plots) p.destroy();
  plots = [];
  const height = paper.matches ? 150 : window.innerWidth < 560 ? 165 : 195;
  for (const [id, series, options] of timed()) {
    const empty = !series.some((s) => s.y.some((y) => y !== null));
    $(id).parentElement.hidden = empty && shownRuns() > 0;
    const p = plot($(id), series, { ...options, height, sync: 'time', seek, width: paper.matches ? 680 : 0 });
    if (p) plots.push(p);
  }
  document.body.dataset.plots = String(plots.length);
  for (const p of plots) p.at(time);
  drawPhase();
}
for (const run of moving) {
  const button = make('button', null, { title: 'show or hide' }), swatch = make('span', null, { className: 'swatch' });
  swatch.style.borderTopColor = run.colour;
  swatch.style.borderTopStyle = run.dash ? 'dashed' : 'solid';
  button.append(swatch, run.label + (ran(run.row) ? '' : ` (${run.row.status})`));
  button.onclick = () => { run.shown = !run.shown; button.className = run.shown ? '' : 'off'; drawPlots(); };
  $('legend').append(button);
}
$('link').onchange = drawPlots;

// ---- any two
if (moving.length) {
  const m = moving[0].motion;
  quantities.push(['time [s]', (o) => Array.from(o.t)]);
  m.coordinates.forEach((b, i) => {
    const w = 2 * m.coordinates.length, unit = b.unit ? ` [${b.unit}]` : '', rate = b.unit ? ` [${b.unit}/s]` : '';
    quantities.push([b.name + unit, (o) => o.column(o.coordinate, w, 2 * i)], [`${b.name}′${rate}`, (o) => o.column(o.coordinate, w, 2 * i + 1)]);
  });
  m.signals.forEach((s, i) => quantities.push([s.name + (s.unit ? ` [${s.unit}]` : ''), (o) => o.column(o.signal, o.signals.length, i)]));
  own.push(...quantities.slice(1));
  own.forEach(([name], i) => $('own').append(make('option', name, { value: String(i) })));
  const varies = own.findIndex(([, get]) => new Set(get(m)).size > 2);
  $('own').value = String(Math.max(varies, 0));
  $('own').onchange = drawPlots;
  m.bodies.forEach((b, i) => {
    if (b.kind === 'fixed') return;
    ['x', 'y', 'z'].forEach((axis, k) => quantities.push([`${b.name}.${axis} [m]`, (o) => o.column(o.position, 3 * o.bodies.length, 3 * i + k)]));
  });
  links.forEach((l, i) => quantities.push([`gap of ${l.name}${l.unit ? ` [${l.unit}]` : ''}`, (o) => o.gaps(i)], [`reaction of ${l.name} [N]`, (o) => o.forces(i)]));
  if (moving.some((r) => r.motion.energy)) quantities.push(['energy, change since the start [J]', (o) => (o.energy ? o.column(o.energy, 1, 0) : new Array(o.frames).fill(null))]);
  for (const id of ['across', 'up']) quantities.forEach(([name], i) => $(id).append(make('option', name, { value: String(i) })));
  // What is likely to be a picture: a coordinate and its rate, or the path of the body that moves last in the chain.
  const find = (text) => quantities.findIndex(([name]) => name === text);
  const free = m.bodies.map((b, i) => [b, i]).filter(([b]) => b.kind === 'particle' || b.kind === 'rigid');
  let pair = [0, Math.min(1, quantities.length - 1)];
  if (m.coordinates.length) pair = [1, 2];
  else if (free.length) {
    const [body, index] = free[free.length - 1];
    const spread = ['x', 'y', 'z'].map((axis, k) => { const v = m.column(m.position, 3 * m.bodies.length, 3 * index + k).filter((x) => x !== null); return [Math.max(...v) - Math.min(...v), axis]; });
    const two = spread.slice().sort((a, b) => b[0] - a[0]).slice(0, 2);
    const g = (c.gravity || []).map(Math.abs), vertical = 'xyz'[g.indexOf(Math.max(...g))] || 'y';
    const name = (axis) => find(`${body.name}.${axis} [m]`);
    if (two[1][0] < 1e-6 * two[0][0]) pair = [0, name(two[0][1])];
    else pair = two.map(([, axis]) => axis).sort((a, b) => (a === vertical) - (b === vertical) || a.localeCompare(b)).map(name);
  }
  $('across').value = String(pair[0]);
  $('up').value = String(pair[1]);
}
let phase = null;
function drawPhase() {
  if (!quantities.length) return;
  if (phase) phase.destroy();
  const [xlabel, x] = quantities[Number($('across').value)], [ylabel, y] = quantities[Number($('up').value)];
  // The ghost below, the exact run on top.
  const series = moving.filter((r) => r.shown).reverse().map((r) => ({ sound: ran(r.row), colour: r.colour, dash: r.dash, x: x(r.motion), y: y(r.motion) }));
  phase = curves($('phase'), series, { xlabel, ylabel, square: /\[m\]$/.test(xlabel) && /\[m\]$/.test(ylabel), height: window.innerWidth < 560 ? 280 : 380 });
}
$('across').onchange = $('up').onchange = drawPhase;

// ---- downloads
const field = (x) => (x === null || x === undefined ? '' : /[",\n]/.test(String(x)) ? `"${String(x).replace(/"/g, '""')}"` : String(x));
function save(name, lines) {
  const link = make('a');
  link.href = URL.createObjectURL(new Blob([lines.map((l) => l.map(field).join(',')).join('\r\n') + '\r\n'], { type: 'text/csv' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
const stem = title.replace(/\.[^.]*$/, '');
$('csv').onclick = () => {
  const lines = [['solver', 'precision', ...quantities.map(([name]) => name)]];
  for (const run of moving) {
    const all = quantities.map(([, get]) => get(run.motion));
    for (let f = 0; f < run.motion.frames; ++f) lines.push([run.row.name, run.row.precision, ...all.map((v) => v[f])]);
  }
  save(`${stem}-frames.csv`, lines);
};
$('csv-table').onclick = () => save(`${stem}-table.csv`, [['solver', 'precision', ...used.map(([name, unit]) => `${name} [${unit}]`), 'status'],
  ...rows.map((r) => [r.name, r.precision, ...used.map(([, , get]) => value(get(r))), r.status])]);
if (!moving.length) $('csv').hidden = true;

// ---- layout
let width = 0;
function layout() {
  if (window.innerWidth === width || paper.matches) return;
  width = window.innerWidth;
  if (view) view.resize($('view').clientWidth, $('view').clientHeight);
  drawPlots();
}
function repaint() { stageRuns(); drawPlots(); }
if (view) view.frame(solid.motion);
layout();
stageRuns();
if (view) { view.home(); view.draw(); }
show();
window.addEventListener('resize', layout);
dark.addEventListener('change', repaint);
const printing = (on) => {
  $('scene-text').open = on;
  if (view) view.resize(on ? 700 : $('view').clientWidth, on ? 394 : $('view').clientHeight);
  repaint();
  if (view) view.draw(true);
};
paper.addEventListener('change', (e) => printing(e.matches));
document.body.dataset.ready = 'yes';
