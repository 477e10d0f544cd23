// Puts the page together: words and table from the recording, plots, playback.
import { Motion, recording } from './data.js';
import { $, make, save } from './dom.js';
import { brief, plain } from './number.js';
import { Player } from './player.js';
import { curves, plot, swatch } from './plots.js';
import { dark, no3d, paper, scale, stage } from './stage.js';
import { View } from './view.js';

// Okabe and Ito's colours: exact blue, the first native vermilion.
const natives = ['#d55e00', '#009e73', '#cc79a7', '#e69f00', '#7f7f7f', '#8c6d31'];
const exacts = ['#0072b2', '#56b4e9'];
const dashes = [undefined, [7, 4], [2, 3], [10, 3, 2, 3], [14, 4], [5, 2, 1, 2, 1, 2]];
const styles = new Set();
function dash(colour, first) {  // no two runs have the same colour and dash
  for (let k = 0; k < dashes.length; ++k) {
    const one = dashes[(first + k) % dashes.length];
    if (styles.has(`${colour} ${one}`)) continue;
    styles.add(`${colour} ${one}`);
    return one;
  }
  return dashes[first % dashes.length];
}
const rows = recording.comparison.solvers;
const paces = rows.some((r) => r.ran_in_steps);  // recordings of other steps beside each other
const is_ours = (name) => /(^|:)exact$/.test(name);  // exact, or bullet:exact on another host
const names = [...new Set(rows.map((r) => r.name).filter((name) => !is_ours(name)))];
let exact = 0;
const runs = rows.map((row, i) => {
  const ours = is_ours(row.name), colours = ours ? exacts : natives;
  const n = ours ? exact++ : names.indexOf(row.name);  // one colour per native solver, dots for single precision
  const precisions = new Set(rows.map((r) => r.precision)).size > 1 || rows.filter((r) => r.name === row.name).length > 1;
  const steps = row.ran_in_steps || [recording.comparison.dt, recording.comparison.duration], colour = colours[n % colours.length];
  const pace = paces ? `, ${plain(steps[1])} s in steps of ${plain(steps[0])} s` : '';
  let motion = null, damage = '';
  try {
    const given = recording.motions[i];
    motion = given && given.frames !== 0 ? new Motion(given) : null;
  } catch (error) {
    damage = error.message;
  }
  return { row, index: i, ours, pace: pace.slice(2), label: row.name + (precisions ? ', ' + row.precision : '') + pace, colour, dash: dash(colour, ours ? n % 2 : row.precision === 'single' ? 2 : 0), motion, damage, shown: true };
});
const moving = runs.filter((r) => r.motion);
const ran = (row) => String(row.status || '').startsWith('ok');

// ---- words
const title = recording.scene.title || recording.title || recording.scene.file;
$('title').textContent = title;
const c = recording.comparison;
const bits = [...(title === recording.scene.file ? [] : [recording.scene.file]), `${c.bodies} ${c.bodies === 1 ? 'body' : 'bodies'}`, `${c.joints} ${c.joints === 1 ? 'constraint' : 'constraints'}`,
  paces ? 'runs of different steps' : `${plain(c.duration)} s in steps of ${plain(c.dt)} s`];
if (c.warmup_steps) bits.push(`first ${c.warmup_steps} steps not counted`);
if (Array.isArray(c.gravity)) bits.push(`gravity (${c.gravity.map((x) => plain(x)).join(', ')}) m/s²`);
$('setting').textContent = bits.join(' · ');
for (const line of recording.verdict || []) $('verdict').append(make('p', line));
const expected = rows.flatMap((row) => row.expect || []).filter((v) => typeof v.met === 'boolean');
const missed = expected.filter((v) => !v.met);
if (expected.length) $('verdict').append(make('p', missed.length
  ? `${missed.length} of ${expected.length} known answers of the scene are not met: ${missed.map((v) => v.name ?? v.value).join(', ')}.`
  : `All ${expected.length} known answers of the scene are met.`));
if (missed.length || rows.some((r) => is_ours(r.name) && !ran(r)) || !rows.some(ran)) $('verdict').className = 'bad';
for (const line of recording.notes || []) $('notes').append(make('li', line));
for (const run of runs) if (run.damage) {
  $('verdict').append(make('p', `The motion of ${run.label} cannot be drawn: ${run.damage}.`));
  $('verdict').className = 'bad';
}

// ---- table
const columns = [
  ['largest gap', 'm', (r) => r.max_gap_m], ['rms gap', 'm', (r) => r.rms_gap_m], ['largest gap', 'rad', (r) => r.max_gap_rad],
  ['energy error', 'J', (r) => r.max_energy_error_J], ['force error', 'relative, rms', (r) => r.force_rms_error_rel],
  ['impulse error', 'relative, rms', (r) => r.impulse_rms_error_rel],
];
const value = (x) => (typeof x === 'number' && Number.isFinite(x) ? x : null);
const user = Object.keys(rows.reduce((all, r) => Object.assign(all, r.user_gaps), {}));
if (user.length && user.length <= 4) for (const name of user) columns.push([name, 'residual', (r) => (r.user_gaps || {})[name]]);
columns.push(['time per step', 'µs', (r) => (typeof r.ns_per_step === 'number' ? r.ns_per_step / 1000 : null), (x) => (x === null ? '–' : x.toFixed(1))]);
const used = columns.filter(([, , get]) => rows.some((r) => value(get(r)) !== null));
{
  const head = make('tr');
  head.append(make('th', 'solver', { className: 'words' }), make('th', 'precision', { className: 'words' }));
  if (paces) head.append(make('th', 'ran', { className: 'words' }));
  for (const [name, unit] of used) { const th = make('th', name); th.append(make('small', `[${unit}]`)); head.append(th); }
  const steps = rows.some((r) => r.fallbacks > 0);
  if (steps) head.append(make('th', 'fallbacks'));
  head.append(make('th', 'status', { className: 'words' }));
  $('table').append(make('thead'), make('tbody'));
  $('table').tHead.append(head);
  for (const run of runs) {
    const tr = make('tr', null, { className: run.ours ? 'exact' : '' }), name = make('td', null, { className: 'words' });
    name.append(swatch(run.colour, run.dash), run.row.name);
    tr.append(name, make('td', run.row.precision, { className: 'words' }));
    if (paces) tr.append(make('td', run.pace, { className: 'words' }));
    for (const [label, unit, get, format] of used) {
      const show = format || brief, x = value(get(run.row)), td = make('td', show(x));
      td.dataset.value = x === null ? '' : String(x);
      td.dataset.column = `${label} [${unit}]`;
      const others = rows.filter(ran).map((r) => value(get(r))).filter((y) => y !== null);
      // The best, where it is seen to be: not among numbers that are shown alike.
      if (x !== null && ran(run.row) && show(x) === show(Math.min(...others)) && new Set(others.map(show)).size > 1) td.className = 'best';
      tr.append(td);
    }
    if (steps) tr.append(make('td', run.row.fallbacks));
    tr.append(make('td', run.row.status, { className: 'words ' + (ran(run.row) ? '' : 'failed') }));
    $('table').tBodies[0].append(tr);
  }
}

const meaning = [];
if (used.some(([name]) => name === 'force error')) meaning.push(['Force error', 'relative rms difference between the joint forces that a solver reports and an independent dense solution at the same state, with the same contacts, over all samples.']);
if (used.some(([name]) => name === 'impulse error')) meaning.push(['Impulse error', 'the same for all impulses that the solver applied in a step. Besides the forces, exact applies the impulse that ends the step on the constraints. The plots call it stabilisation. The impulse error of exact is the size of this impulse, and its reported forces do not contain it. A native solver has one impulse for both.']);
if (rows.some((r) => r.substepped_steps > 0)) meaning.push(['Substeps', 'an island is a group of bodies that exact constraints connect. If the tension in its joints changes its direction too fast for the step, linchpin divides the step of this island.']);
for (const [word, text] of meaning) { const p = make('p', null, { className: 'hint' }); p.append(make('b', `${word}: `), text); $('meaning').append(p); }

// ---- provenance
const program = !recording.scene.bytes, said = [...new Set(recording.commands)].filter((line) => !program || line !== recording.scene.file);
const made = [...(said.length ? [['command', said.join('\n')]] : []), ['linchpin', `${recording.linchpin}, ${recording.compiler}`]];
const hosts = [...new Set(rows.map((r) => (r.method || {}).host).filter(Boolean))];
if (hosts.length) made.push(['host', hosts.join(', ')]);
else if (c.host) made.push(['host', c.host === 'bare' ? 'none: linchpin’s own stepper' : c.host]);
else if (/bullet/.test(rows.map((r) => r.name).join()) || rows.length) made.push(['host', 'Bullet Physics']);
made.push(recording.scene.bytes ? ['scene file', `${recording.scene.file}, ${recording.scene.bytes} bytes${recording.scene.text ? ', below' : ''}`] : ['scene', `“${recording.scene.file}”, recorded by a program of its own`]);
made.push(['steps', `${plain(c.dt, 17)} s × ${rows.length ? Math.max(...rows.map((r) => r.steps || 0)) : 0}`]);
for (const [name, text] of made) {
  const dd = make('dd');
  if (name === 'command') text.split('\n').forEach((line, i) => { if (i) dd.append(make('br')); dd.append(make('code', line)); });
  else dd.textContent = text;
  $('made').append(make('dt', name), dd);
}
{
  const head = make('tr'), body = make('tbody');
  for (const name of ['solver', 'precision', 'iterations', 'integrator', 'stabilisation']) head.append(make('th', name, { className: 'words' }));
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
    ? 'Plots and playback have every step, in single precision. The numbers of the table are from every step, in full precision.'
    : `Plots and playback have ${plain(rate, 3)} frames per second: one of every ${m.every} steps, and the last state. Gap and energy are the largest since the frame before, and forces are those at the frame. The numbers of the table are from every step.`;
}

// ---- playback
let view = null, plots = [], phase = null;
let solid = moving.find((r) => r.ours) || moving[0] || null;
let overlay = moving.find((r) => r !== solid && !r.ours && (!solid || r.row.precision === solid.row.precision)) || moving.find((r) => r !== solid) || null;
const player = new Player({
  begin: moving.length ? Math.min(...moving.map((r) => r.motion.begin)) : 0,
  end: moving.length ? Math.max(...moving.map((r) => r.motion.end)) : 0,
  step: moving.length ? moving[0].motion.step : 0,
  show(time) { if (view) view.show(time); for (const p of plots) p.at(time); },
  home() { if (view) { view.home(); view.draw(); } },
});
const seek = (t) => player.seek(t);

// ---- 3D
const spatial = moving.filter((r) => r.motion.bodies.length);
if (!moving.length) {
  $('look').hidden = true;
  $('phase-card').hidden = true;
} else if (!spatial.length) {
  no3d('The scene has only generalized coordinates, so there is no 3D view. The plots show all of them.');
} else {
  try {
    view = new View($('canvas'), c.gravity);
    document.body.dataset.webgl = 'yes';
  } catch (e) {
    no3d('This browser has no WebGL, so there is no 3D view. Plots, table and downloads are complete, and the time can still be moved.');
  }
}
function stageRuns() {
  if (!view) return;
  view.set(solid, overlay, stage());
  view.options($('arrows').checked, $('paths').checked);
  scale(view);
  view.show(player.time);
}
for (const [id, none] of [['solid', false], ['overlay', true]]) {
  if (none) $(id).append(make('option', 'none', { value: '' }));
  for (const run of spatial) $(id).append(make('option', run.label, { value: String(run.index) }));
  const chosen = id === 'solid' ? solid : overlay;
  $(id).value = chosen ? String(chosen.index) : '';
  $(id).onchange = () => {
    const run = runs[Number($(id).value)] || null;
    if (id === 'solid') solid = run; else overlay = $(id).value === '' ? null : run;
    stageRuns();
  };
}
if (spatial.length < 2) for (const id of ['solid', 'overlay']) $(id).parentElement.hidden = true;
for (const id of ['arrows', 'paths']) $(id).onchange = stageRuns;
$('home').onclick = () => view && (view.home(), view.draw());

// ---- plots
// Coordinates and what the scene logs: quantities that somebody asked for.
const quantities = [], own = [];
const links = moving.length ? moving[0].motion.links : [];
$('link').append(make('option', links.length > 1 ? 'the largest of all' : 'all', { value: '-1' }));
links.forEach((link, i) => $('link').append(make('option', link.name, { value: String(i) })));
if (links.length === 1) $('link').value = '0';
if (links.length < 2) $('link').parentElement.hidden = true;
const many = (i) => (i >= 0 ? links[i].name : links.length > 1 ? 'largest of all constraints' : '');

function timed() {
  const shown = moving.filter((r) => r.shown), link = Number($('link').value);
  const unit = moving[0].motion.gapUnit(link), name = many(link);
  const line = (r, y, more) => ({ sound: ran(r.row), label: r.label, colour: r.colour, dash: r.dash, x: r.x || (r.x = Array.from(r.motion.t)), y, ...more });
  $('gap-title').textContent = `Gap [${unit || 'the constraint’s own unit'}]${name ? ', ' + (link < 0 && links.some((l) => l.unit !== unit) ? 'largest of the constraints in that unit' : name) : ''}`;
  $('energy-title').textContent = 'Energy, change since the start [J]';
  const forces = shown.map((r) => line(r, r.motion.forces(link)));
  const one = shown.find((r) => r.ours && r.motion.stabilisation) || shown.find((r) => r.motion.nonideal);
  const there = [];
  if (link >= 0 && one) {
    const dashed = { ideal: ['#009e73', [6, 3]], nonideal: ['#cc79a7', [2, 3]] };
    for (const [key, [colour, dash]] of Object.entries(dashed)) {
      const y = one.motion.part(key, link);
      if (!y || !y.some((v) => v)) continue;
      forces.push(line(one, y, { label: key, colour, dash, width: 1.4, above: true }));
      there.push([key, colour, dash]);
    }
  }
  // On an axis of its own: it may be many times the reaction, for a step.
  const pushes = link < 0 ? [] : shown.filter((r) => r.motion.stabilisation).map((r) => line(r, r.motion.part('stabilisation', link))).filter((s) => s.y.some((v) => v));
  const force = moving[0].motion.forceUnit(link), push = force ? ` [${force}]` : '';
  $('stabilisation-title').textContent = `Stabilisation${push}, ${name}. Besides the reaction: the impulse that ends a step on the constraints, as a mean over the step`;
  $('force-title').textContent = `Reaction${push}${name ? ', ' + (link < 0 && links.some((l, i) => moving[0].motion.forceUnit(i) !== force) ? 'largest of the constraints in that unit' : name) : ''}`;
  if (there.length) $('force-title').append('; parts of ' + one.label + ':');
  for (const [label, colour, dash] of there) $('force-title').append(' ', swatch(colour, dash), label);
  return [
    ['gap', shown.map((r) => line(r, r.motion.gaps(link))), { log: true }],
    ['energy', shown.filter((r) => r.motion.energy).map((r) => line(r, r.motion.column(r.motion.energy, 1, 0))), {}],
    ['force', forces, {}],
    ...(pushes.length ? [['stabilisation', pushes, {}]] : []),
    ...(own.length ? [['value', shown.map((r) => line(r, own[Number($('own').value)][1](r.motion))), {}]] : []),
  ];
}
const shownRuns = () => moving.filter((r) => r.shown).length;
function drawPlots() {
  if (!moving.length) return;
  for (const p of plots) p.destroy();
  let height = paper.matches ? 150 : window.innerWidth < 560 ? 165 : 195, tall = paper.matches ? 250 : window.innerWidth < 560 ? 280 : 380;
  for (const id of ['stabilisation', 'value']) $(id).parentElement.hidden = true;
  const parts = timed().filter(([id, series]) => {
    const empty = !series.some((s) => s.y.some((y) => y !== null));
    $(id).parentElement.hidden = empty && shownRuns() > 0 && !(id === 'gap' && links.length);
    $(id).style.minHeight = empty ? '' : `${height}px`;
    $(id).textContent = '';
    return !$(id).parentElement.hidden;
  });
  if (!paper.matches && window.innerWidth > 980) {  // side by side both columns end at one height
    if (phase) phase.destroy();
    phase = null;
    $('phase').style.minHeight = `${tall}px`;
    const left = [...document.querySelectorAll('.stack .card')].filter((card) => !card.hidden), right = $('plots').getBoundingClientRect();
    const more = left.length ? left[left.length - 1].getBoundingClientRect().bottom - right.bottom : 0;
    if (more > 0 && parts.length) height += Math.min(Math.floor(more / parts.length), 190);
    if (more < 0) tall += Math.min(Math.floor(-more), 260);
  }
  plots = parts.map(([id, series, options]) => plot($(id), series, { ...options, height, sync: 'time', seek, width: paper.matches ? 680 : 0, duration: c.duration || 1 })).filter(Boolean);
  document.body.dataset.plots = String(plots.length);
  for (const p of plots) p.at(player.time);
  drawPhase(tall);
}
for (const run of moving) {
  const button = make('button', null, { title: 'show or hide' });
  button.append(swatch(run.colour, run.dash), run.label + (ran(run.row) ? '' : ` (${run.row.status})`));
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
    if (b.kind === 'rigid') quantities.push([`${b.name} rotation from the start [°]`, (o) => o.turned(i)]);
  });
  links.forEach((l, i) => quantities.push([`gap of ${l.name}${l.unit ? ` [${l.unit}]` : ''}`, (o) => o.gaps(i)], [`reaction of ${l.name}${m.forceUnit(i) ? ` [${m.forceUnit(i)}]` : ''}`, (o) => o.forces(i)]));
  if (moving.some((r) => r.motion.energy)) quantities.push(['energy, change since the start [J]', (o) => (o.energy ? o.column(o.energy, 1, 0) : new Array(o.frames).fill(null))]);
  for (const id of ['across', 'up']) quantities.forEach(([name], i) => $(id).append(make('option', name, { value: String(i) })));
  // What is likely to be a picture: a coordinate and its rate, or the path of the last body of those that move most;
  // where none goes anywhere, what changes first over time.
  const find = (text) => quantities.findIndex(([name]) => name === text);
  const reach = (list) => { let low = Infinity, high = -Infinity; for (const x of list) if (x !== null) { low = Math.min(low, x); high = Math.max(high, x); } return high > low ? high - low : 0; };
  const free = m.bodies.map((b, i) => [b, i]).filter(([b]) => b.kind === 'particle' || b.kind === 'rigid')
    .map(([body, i]) => ({ body, spread: ['x', 'y', 'z'].map((axis, k) => [reach(m.column(m.position, 3 * m.bodies.length, 3 * i + k)), axis]) }));
  const size = ({ spread }) => Math.hypot(...spread.map(([x]) => x)), farthest = Math.max(0, ...free.map(size));
  const changes = ([name, get], i) => { const list = get(m); return i > 0 && !name.startsWith('gap of') && reach(list) > 1e-6 * list.reduce((most, x) => Math.max(most, Math.abs(x || 0)), 0); };
  let pair = [0, 0];
  if (m.coordinates.length) pair = [1, 2];
  else if (farthest > 0) {
    const { body, spread } = free.filter((each) => size(each) > 0.5 * farthest).pop();
    const two = spread.slice().sort((a, b) => b[0] - a[0]).slice(0, 2);
    const g = (c.gravity || []).map(Math.abs), vertical = 'xyz'[g.indexOf(Math.max(...g))] || 'y';
    const name = (axis) => find(`${body.name}.${axis} [m]`);
    if (two[1][0] < 1e-6 * two[0][0]) pair = [0, name(two[0][1])];
    else pair = two.map(([, axis]) => axis).sort((a, b) => (a === vertical) - (b === vertical) || a.localeCompare(b)).map(name);
  } else pair = [0, Math.max(quantities.findIndex(changes), 0)];
  $('phase-card').hidden = pair[1] === 0;  // nothing changes
  $('across').value = String(pair[0]);
  $('up').value = String(pair[1]);
}
function drawPhase(height) {
  if ($('phase-card').hidden) return;
  if (phase) phase.destroy();
  const [xlabel, x] = quantities[Number($('across').value)], [ylabel, y] = quantities[Number($('up').value)];
  const series = moving.filter((r) => r.shown).map((r) => ({ sound: ran(r.row), colour: r.colour, dash: r.dash, x: x(r.motion), y: y(r.motion) }));
  phase = curves($('phase'), series, { xlabel, ylabel, square: /\[m\]$/.test(xlabel) && /\[m\]$/.test(ylabel), height, width: paper.matches ? 680 : 0 });
}
$('across').onchange = $('up').onchange = drawPlots;

// ---- downloads
const stem = recording.scene.file.replace(/\.[^.]*$/, '');
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
player.show();
window.addEventListener('resize', layout);
dark.addEventListener('change', repaint);
const printing = (on) => {
  $('scene-text').open = on;
  if (view) view.resize(on ? 700 : $('view').clientWidth, on ? 280 : $('view').clientHeight);
  repaint();
  if (view) view.draw(true);
};
paper.addEventListener('change', (e) => printing(e.matches));
document.body.dataset.ready = 'yes';
