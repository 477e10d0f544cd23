// The page of a linearised scene: its modes in a table, each in motion, and the eigenvalues in their plane.
import { Motion, recording as page } from './data.js';
import { $, make, save } from './dom.js';
import { brief, plain } from './number.js';
import { Player } from './player.js';
import { legend, points } from './points.js';
import { theme } from './plots.js';
import { dark, paper, scale, stage } from './stage.js';
import { extent, radius_of, View } from './view.js';

const blue = '#0072b2', vermilion = '#d55e00';
const frames = 181, periods = 3, constants = 4;  // of a mode that is drawn: at most so many of both
const part_of_size = 0.15, most_rotation = 0.6;  // largest displacement and rotation [rad] of a mode that is drawn
const of = page.linearization, at = `t = ${plain(of.t)} s`;
const counted = (n, one, more = `${one}s`) => `${n} ${n === 1 ? one : more}`;

// ---- the pose at the state, and the modes about it
const columns = (list, name) => new Float32Array(Uint8Array.from(atob(list[name]), (c) => c.charCodeAt(0)).buffer);
const pose = new Motion(page.pose);
pose.force.fill(NaN);
pose.end = Infinity;
const size = (() => {
  const box = extent(pose), edges = ['x', 'y', 'z'].map((axis) => box.max[axis] - box.min[axis]);
  return Math.max(...edges) || Math.hypot(...pose.position) || 1;  // one point: its distance from the origin
})();
const modes = page.modes.map((mode, index) => {
  const [growth, frequency] = mode.eigenvalue, shape = {};
  for (const name of ['position', 'rotation', 'coordinate']) shape[name] = columns(mode.columns, name);
  return { ...mode, index, growth, frequency, constant: growth === 0 ? null : 1 / Math.abs(growth), shape };
});
const colour = (mode) => (mode.growth > 0 ? vermilion : blue);
const modulus = (column, first, count) => { let sum = 0; for (let i = 2 * first; i < 2 * (first + count); ++i) sum += column[i] * column[i]; return Math.sqrt(sum); };

/// The factor of a shape, by which a mode is seen: its largest displacement is a part of the size of the mechanism.
function amplitude(mode) {
  let far = 0, turned = 0;
  pose.bodies.forEach((body, i) => {
    const rotation = modulus(mode.shape.rotation, 3 * i, 3);
    far = Math.max(far, modulus(mode.shape.position, 3 * i, 3), rotation * radius_of(body));
    turned = Math.max(turned, rotation);
  });
  return far > 1e-9 || turned > 1e-9 ? Math.min((part_of_size * size) / Math.max(far, 1e-12), most_rotation / Math.max(turned, 1e-12)) : 0;
}
const duration = (mode) => Math.min(mode.frequency > 0 ? (periods * 2 * Math.PI) / mode.frequency : Infinity, mode.constant === null ? Infinity : constants * mode.constant);
/// The pose displaced by factor · Re(shape · exp(λ t)). A mode that grows comes to its amplitude at the end.
function motion_of(mode, factor) {
  const n = pose.bodies.length, end = duration(mode), late = mode.growth > 0 ? end : 0, { position, rotation } = mode.shape;
  const out = Object.assign(Object.create(Motion.prototype), pose, {
    frames, begin: 0, end, step: end / (frames - 1), t: new Float32Array(frames), position: new Float32Array(3 * n * frames), rotation: new Float32Array(4 * n * frames),
    force: new Float32Array(3 * pose.links.length * frames).fill(NaN),
  });
  for (let f = 0; f < frames; ++f) {
    const t = (end * f) / (frames - 1), size = factor * Math.exp(mode.growth * (t - late)), c = size * Math.cos(mode.frequency * t), s = size * Math.sin(mode.frequency * t);
    const real = (column, i) => column[2 * i] * c - column[2 * i + 1] * s;
    out.t[f] = t;
    for (let i = 0; i < n; ++i) {
      for (let k = 0; k < 3; ++k) out.position[3 * (f * n + i) + k] = pose.position[3 * i + k] + real(position, 3 * i + k);
      const [x, y, z] = [0, 1, 2].map((k) => real(rotation, 3 * i + k)), angle = Math.hypot(x, y, z), h = angle > 1e-12 ? Math.sin(angle / 2) / angle : 0.5, w = Math.cos(angle / 2);
      const [qx, qy, qz, qw] = pose.rotation.subarray(4 * i, 4 * i + 4), [ax, ay, az] = [h * x, h * y, h * z];
      out.rotation.set([w * qx + ax * qw + ay * qz - az * qy, w * qy + ay * qw + az * qx - ax * qz, w * qz + az * qw + ax * qy - ay * qx, w * qw - ax * qx - ay * qy - az * qz], 4 * (f * n + i));
    }
  }
  return out;
}

// ---- words
for (const id of ['phase-card', 'plots', 'methods', 'csv']) $(id).hidden = true;
$('modal').hidden = false;
const title = page.scene.title || page.title || page.scene.file;
$('title').textContent = title;
$('setting').textContent = [...(title === page.scene.file ? [] : [page.scene.file]), at, `${counted(of.displacements, 'freedom', 'freedoms')} of displacement, ${of.velocities} of velocity`,
  ...[[pose.bodies, 'body', 'bodies'], [pose.coordinates, 'coordinate', 'coordinates']].filter(([list]) => list.length).map(([list, ...words]) => counted(list.length, ...words)), `gravity (${page.gravity.map((x) => plain(x)).join(', ')}) m/s²`].join(' · ');
const growing = modes.filter((mode) => mode.growth > 0).length;
const grow = `${growing} of ${counted(modes.length, 'mode')} ${growing === 1 ? 'grows' : 'grow'}`;
if (!modes.length && !page.neutral_modes) {
  $('verdict').append(make('p', 'The constraints leave no freedom at this state, so there is no mode.'));
  $('verdict').className = 'open';
} else if (of.steady) {
  $('verdict').append(make('p', of.stability === 'unstable' ? `Unstable: ${grow}.` : of.stability === 'stable' ? 'Stable: all modes decay.' : 'Marginal: no mode grows, but not all modes decay.'));
  $('verdict').className = growing ? 'bad' : of.stability === 'stable' ? '' : 'open';
} else {
  $('verdict').append(make('p', `The motion is not steady: accelerations or the matrix A change along it by ${plain(100 * of.unsteadiness, 3)} %. The modes are those of the frozen matrix, and they do not decide the stability of the motion. In them, ${grow}.`));
  $('verdict').className = 'open';
}
const turns = of.frame_angular_velocity.some((x) => x !== 0);
if (turns) $('notes').append(make('li', `The motion is steady in a frame that rotates with (${of.frame_angular_velocity.map((x) => plain(x)).join(', ')}) rad/s. The page shows the pose at the instant ${at}. Displacements are in the axes of that frame, which are the world axes at that instant.`));
else if (!page.at_rest) $('notes').append(make('li', `Bodies move at this state. The page shows their pose at the instant ${at}, and displacements from this motion.`));
if (page.neutral_modes) $('notes').append(make('li', `${counted(page.neutral_modes, 'neutral mode')} with the eigenvalue 0: no oscillation, growth or decay. The table leaves ${page.neutral_modes === 1 ? 'it' : 'them'} out.`));
for (const line of page.left_out) $('notes').append(make('li', `The host bare leaves out: ${line}`));
for (const line of page.warnings) $('notes').append(make('li', `Warning: ${line}`));

const sizes = (list, most) => list.slice(0, most).map(({ body, size }) => `${body} ${plain(size, 3)}`).join(', ') + (list.length > most ? `, and ${list.length - most} more` : '');
const eigenvalue = (mode) => `${plain(mode.growth, 7)}${mode.frequency > 0 ? ` ± ${plain(mode.frequency, 7)} i` : ''}`;
const develops = (mode) => (mode.growth > 0 ? 'grows' : mode.growth < 0 ? 'decays' : 'keeps its size');

// ---- table
const numbers = [
  ['frequency', 'rad/s', (m) => m.frequency || null], ['frequency', 'Hz', (m) => m.frequency / (2 * Math.PI) || null], ['damping ratio', '', (m) => m.damping_ratio],
  ['time constant', 's', (m) => m.constant], ['error', '1/s', (m) => m.error, brief],
];
{
  $('solvers').querySelector('h2').textContent = 'Modes';
  $('table').className = 'modes';
  if (modes.length > 20) $('table').parentElement.classList.add('tall');
  const head = make('tr'), cell = (name, unit, className = '') => { const th = make('th', name, { className }); if (unit) th.append(make('small', `[${unit}]`)); head.append(th); };
  cell('mode');
  cell('eigenvalue', '1/s');
  for (const [name, unit] of numbers) cell(name, unit);
  cell('behaviour', '', 'words');
  cell('moves', 'm or rad', 'words');
  $('table').append(make('thead'), make('tbody'));
  $('table').tHead.append(head);
  for (const mode of modes) {
    const tr = make('tr'), first = make('td'), button = make('button', String(mode.index + 1), { title: 'choose this mode' });
    first.append(button);
    tr.append(first, make('td', eigenvalue(mode)));
    for (const [name, unit, get, show = (x) => plain(x, 5)] of numbers) {
      const x = get(mode), td = make('td', x === null ? '–' : show(x));
      td.dataset.column = unit ? `${name} [${unit}]` : name;
      td.dataset.value = x === null ? '' : String(x);
      tr.append(td);
    }
    tr.append(make('td', develops(mode), { className: mode.growth > 0 ? 'words failed' : 'words' }), make('td', mode.moves.length ? sizes(mode.moves, 3) : 'velocities only', { className: 'words' }));
    tr.onclick = () => choose(mode, true);
    $('table').tBodies[0].append(tr);
  }
  if (!modes.length) $('table').parentElement.hidden = true;
  if (!modes.length && !$('notes').childElementCount) $('solvers').hidden = true;
}
const hint = make('p', 'The size of a mode is free. Its largest displacement is 1 m or 1 rad here, and a body moves by the number behind its name.', { className: 'hint' });
if (modes.length) $('meaning').append(hint);
$('csv-table').onclick = () => save(`${page.scene.file.replace(/\.[^.]*$/, '')}-modes.csv`, [['mode', 'real part [1/s]', 'imaginary part [1/s]', ...numbers.map(([name, unit]) => name + (unit ? ` [${unit}]` : '')), 'moves'],
  ...modes.map((m) => [m.index + 1, m.growth, m.frequency, ...numbers.map(([, , get]) => get(m)), sizes(m.moves, Infinity)])]);

// ---- provenance
const add = (key, text, code) => { const dd = make('dd'); dd.append(code ? make('code', text) : text); $('made').append(make('dt', key), dd); };
for (const command of page.commands) add('command', command, true);
add('linchpin', `${page.linchpin}, ${page.compiler}`);
add('state', `${at}, on the host bare`);
add('error of the matrix', `${brief(of.error)}, relative`);
if (page.scene.text) {
  $('scene-text').hidden = false;
  $('scene-text').querySelector('pre').textContent = page.scene.text;
}

// ---- motion
// The mode that decays least, or grows most; of such the slowest.
let mode = modes.reduce((best, each) => (best && best.growth >= each.growth ? best : each), null), view = null, plane = null, drawn = null;
const player = new Player({ loop: true, show(time) { if (view) view.show(time); }, home() { if (view) { view.home(); view.draw(); } } });
const moving = modes.filter((each) => amplitude(each) > 0);
const factor = (each) => amplitude(each) * Number($('amplitude').value);
for (const id of ['arrows', 'speed', 'overlay']) $(id).parentElement.hidden = id === 'arrows';
$('solid').parentElement.firstChild.textContent = 'mode ';
$('overlay').parentElement.firstChild.textContent = 'beside ';
for (const each of modes) $('solid').append(make('option', `${each.index + 1}: ${eigenvalue(each)} 1/s`, { value: String(each.index) }));
$('overlay').append(make('option', 'nothing', { value: '' }), make('option', `the pose at ${at}`, { value: 'pose' }));
$('overlay').value = 'pose';
$('arrows').checked = false;
$('amplitude').parentElement.hidden = false;
function flat(why) {
  $('motion').parentElement.hidden = true;
  $('look').classList.add('flat');
  $('notes').append(make('li', why));
  document.body.dataset.webgl = 'no';
}
if (!pose.bodies.length) flat('The scene has only generalized coordinates, so there is no 3D view. The table of the shape has each mode.');
else {
  try {
    view = new View($('canvas'), page.gravity);
    document.body.dataset.webgl = 'yes';
  } catch (e) {
    flat('This browser has no WebGL, so there is no 3D view. The tables and the plane of the eigenvalues are complete.');
  }
}
if (!modes.length) for (const bar of document.querySelectorAll('#motion .bar')) bar.hidden = true;

function put() {
  if (!view) return;
  const factor_now = mode ? factor(mode) : 0;
  drawn = mode && factor_now > 0 ? motion_of(mode, factor_now) : Object.assign(Object.create(Motion.prototype), pose, { begin: 0, end: 0 });
  Object.assign(player, { begin: drawn.begin, end: drawn.end, step: drawn.step });
  // In real time, if that can be watched.
  player.pace = drawn.end >= 2 && drawn.end <= 15 ? 1 : drawn.end / 5 || 1;
  view.set({ motion: drawn, colour: mode ? colour(mode) : blue }, $('overlay').value ? { motion: pose, colour: theme().soft } : null, stage());
  view.options(false, $('paths').checked);
  scale(view);
  note();
  player.seek(Math.min(player.time, drawn.end));
}
function note() {
  $('mode-note').hidden = false;
  if (!mode) { $('mode-note').textContent = `There is no mode to draw: ${page.neutral_modes ? 'all of them are neutral' : 'nothing can move'}.`; return; }
  const { pace } = player, far = factor(mode), words = [];
  if (mode.frequency > 0) words.push(`oscillates at ${plain(mode.frequency, 5)} rad/s (${plain(mode.frequency / (2 * Math.PI), 4)} Hz)`);
  if (mode.constant !== null) words.push(`${develops(mode)} with time constant ${plain(mode.constant, 4)} s`);
  const slow = pace === 1 ? 'in real time' : pace < 1 ? `${plain(1 / pace, 2)} times slower than real time` : `${plain(pace, 2)} times faster than real time`;
  const drawn = far > 0 ? `It is drawn ${slow} at speed 1, with ${plain(far, 3)} times the numbers of the table${mode.growth > 0 ? ' at the end' : mode.growth < 0 ? ' at the start' : ''}.`
    : mode.moves.length ? 'It moves generalized coordinates alone, which have no place in space.' : 'It changes velocities alone, so the pose stays as it is.';
  $('mode-note').textContent = `Mode ${mode.index + 1} ${words.join(' and ')}. ${drawn}`;
}

// ---- shape of the mode that is chosen
function put_shape() {
  $('shape').textContent = '';
  $('shape').parentElement.parentElement.hidden = !mode;
  if (!mode) return;
  $('shape-title').textContent = `Shape of mode ${mode.index + 1}`;
  const rows = [], axes = ['x', 'y', 'z'];
  const part = (column, i) => { const re = column[2 * i], im = column[2 * i + 1], size = Math.hypot(re, im); return size > 1e-6 ? { size, angle: (180 / Math.PI) * Math.atan2(im, re) } : null; };
  pose.bodies.forEach((body, i) => rows.push([body.name, ...[0, 1, 2].map((k) => part(mode.shape.position, 3 * i + k)), ...[0, 1, 2].map((k) => part(mode.shape.rotation, 3 * i + k)), null]));
  pose.coordinates.forEach((one, i) => rows.push([one.name + (one.unit ? ` [${one.unit}]` : ''), ...new Array(6).fill(null), part(mode.shape.coordinate, i)]));
  const seen = rows.filter((row) => row.slice(1).some(Boolean)), there = (c) => seen.some((row) => row[1 + c]);
  const heads = [...axes.map((axis) => [axis, 'm']), ...axes.map((axis) => [`rotation ${axis}`, 'rad']), ['coordinate', '']].map((head, c) => [...head, c]).filter(([, , c]) => there(c));
  const head = make('tr');
  head.append(make('th', pose.coordinates.length ? 'body or coordinate' : 'body', { className: 'words' }));
  for (const [name, unit] of heads) { const th = make('th', name); if (unit) th.append(make('small', `[${unit}]`)); head.append(th); }
  $('shape').append(make('thead'), make('tbody'));
  $('shape').tHead.append(head);
  const phases = mode.frequency > 0;
  for (const row of seen) {
    const tr = make('tr');
    tr.append(make('td', row[0], { className: 'words' }));
    for (const [, , c] of heads) {
      const x = row[1 + c], td = make('td', x ? plain(phases ? x.size : Math.abs(x.angle) > 90 ? -x.size : x.size, 3) : '');
      if (x && phases) td.append(make('small', `${Math.round(x.angle) || 0}°`));
      tr.append(td);
    }
    $('shape').tBodies[0].append(tr);
  }
  $('shape').parentElement.classList.toggle('tall', seen.length > 12);
  if (!seen.length) $('shape').textContent = '';
  $('shape-note').textContent = !seen.length ? 'This mode changes velocities alone.' : `${phases ? 'Size and phase' : 'Size'} of each part${pose.bodies.length ? `, in world axes at ${at}` : ''}.${phases ? ' A phase of 90° is a quarter of a period ahead.' : ''}`;
}

// ---- plane
const kinds = [['decays', blue, 'dot', (x) => x < 0], ['grows', vermilion, 'cross', (x) => x > 0], ['keeps its size', null, 'ring', (x) => x === 0]];
function put_plane() {
  if (plane) plane.destroy();
  plane = null;
  $('plane').textContent = '';
  const all = [...modes.flatMap((m) => (m.frequency > 0 ? [[m.growth, m.frequency], [m.growth, -m.frequency]] : [[m.growth, 0]])), ...(page.neutral_modes ? [[0, 0]] : [])], entries = [];
  $('plane').parentElement.hidden = !all.length;
  if (!all.length) return;
  const series = [];
  for (const [text, paint, kind, holds] of kinds) {
    const some = all.filter(([x]) => holds(x));
    if (!some.length) continue;
    series.push({ x: some.map(([x]) => x), y: some.map(([, y]) => y), colour: paint || theme().soft, kind, points: true, radius: kind === 'dot' ? 4.5 : 5 });
    entries.push([`${text} (${some.length - (kind === 'ring' && page.neutral_modes ? 1 - page.neutral_modes : 0)})`, paint || theme().soft, kind === 'dot' ? 'dots' : kind]);
  }
  if (mode) {
    series.push({ x: mode.frequency > 0 ? [mode.growth, mode.growth] : [mode.growth], y: mode.frequency > 0 ? [mode.frequency, -mode.frequency] : [0], colour: theme().ink, kind: 'ring', points: true, radius: 10 });
    entries.push(['the mode that is chosen', theme().ink, 'circle']);
  }
  legend($('plane-legend'), entries);
  const width = paper.matches ? 680 : $('plane').clientWidth;
  plane = points($('plane'), series, { width, height: paper.matches ? 300 : window.innerWidth < 560 ? 300 : 380, xname: 'real part [1/s]', yname: 'imaginary part [rad/s]', plane: true });
  plane.over.onclick = (e) => {
    const box = plane.over.getBoundingClientRect(), far = (m) => Math.hypot(plane.valToPos(m.growth, 'x') - (e.clientX - box.left), Math.min(...[1, -1].map((s) => Math.abs(plane.valToPos(s * m.frequency, 'y') - (e.clientY - box.top)))));
    const near = modes.reduce((best, m) => (best && far(best) <= far(m) ? best : m), null);
    if (near && far(near) < 25) choose(near, true);
  };
}

// ---- choice
function choose(next, play = false) {
  mode = next;
  [...$('table').tBodies[0].rows].forEach((tr, i) => { tr.className = mode && i === mode.index ? 'exact' : ''; tr.cells[0].firstChild.setAttribute('aria-pressed', String(tr.className !== '')); });
  if (mode) $('solid').value = String(mode.index);
  document.body.dataset.mode = mode ? String(mode.index + 1) : '';
  player.time = 0;
  put();
  put_shape();
  put_plane();
  if (play && view) player.play(true);
}
$('solid').onchange = () => choose(modes[Number($('solid').value)], true);
for (const id of ['overlay', 'paths']) $(id).onchange = put;
$('amplitude').oninput = put;
$('home').onclick = () => view && (view.home(), view.draw());

// ---- layout
// The view contains all modes at their largest.
function frame() {
  const n = pose.bodies.length, all = [0, ...moving.flatMap((each) => [each, each])], reach = Object.assign(Object.create(Motion.prototype), pose, {
    frames: all.length, t: Float32Array.from(all.keys()), position: new Float32Array(3 * n * all.length), rotation: Float32Array.from({ length: 4 * n * all.length }, (_, i) => pose.rotation[i % (4 * n)]),
  });
  all.forEach((each, f) => {
    for (let i = 0; i < 3 * n; ++i) reach.position[3 * n * f + i] = pose.position[i] + (each ? (f % 2 ? 1 : -1) * amplitude(each) * Math.hypot(each.shape.position[2 * i], each.shape.position[2 * i + 1]) : 0);
  });
  view.frame(reach);
}
let width = 0;
function layout() {
  if (window.innerWidth === width || paper.matches) return;
  width = window.innerWidth;
  if (view) view.resize($('view').clientWidth, $('view').clientHeight);
  put_plane();
}
function repaint() { put(); put_plane(); }
if (view) frame();
layout();
choose(mode);
if (view) { view.home(); view.draw(); }
window.addEventListener('resize', layout);
dark.addEventListener('change', repaint);
paper.addEventListener('change', (e) => {
  $('scene-text').open = e.matches;
  if (view) view.resize(e.matches ? 700 : $('view').clientWidth, e.matches ? 280 : $('view').clientHeight);
  repaint();
  if (view) view.draw(true);
});
document.body.dataset.ready = 'yes';
