// The page of a sweep: a quantity over one parameter, or its map over two, with the answers that the scene knows.
import { recording as sweep } from './data.js';
import { $, make, save } from './dom.js';
import { brief, plain } from './number.js';
import { theme } from './plots.js';
import { dot, legend, points, ruler, scale, shade } from './points.js';
import { dark, paper } from './stage.js';

const blue = '#0072b2', vermilion = '#d55e00';
const parameters = sweep.parameters.length, first = 3 + parameters;
const ok = (row) => String(row[1 + parameters]).startsWith('ok');
const value = (row, c) => (ok(row) && Number.isFinite(row[first + c]) ? row[first + c] : null);
const unit = (c) => { const u = shown(c).match(/ (\[[^\]]*\])$/); return u ? ' ' + u[1].slice(1, -1) : ''; };
// As it is read: an angle that was turned into degrees is in degrees.
const shown = (c) => sweep.columns[c].name.replace(/ ?\* ?180 ?\/ ?pi( #\d+)?$/, '$1 [°]');
// Expectations speak of a motion: in a search for places of rest there is none.
const at_rest = sweep.end.startsWith('stability');
if (at_rest) for (const column of sweep.columns) if (column.expected) column.at_own = column.known = null;
// A column of parameters alone is a closed form: the known answer of the column before it.
const words_of_formulas = new Set('sin cos tan asin acos atan atan2 sinh cosh tanh asinh exp log sqrt abs square pow hypot pi'.split(' '));
const names_of_params = new Set(sweep.parameters.map((p) => p.name));
for (const [, name] of ((sweep.scene.text || '').match(/^\[params\]([^]*?)^\[/m) || ['', ''])[1].matchAll(/^\s*(\w+)\s*=/gm)) names_of_params.add(name);
const is_formula = (c) => {
  const text = sweep.columns[c].name.replace(/ \[[^\]]*\]$/, '').replace(/ #\d+$/, ''), names = text.match(/(?<![\w.])[A-Za-z_]\w*/g) || [];
  return !sweep.columns[c].expected && !/'|\.[A-Za-z_]/.test(text) && names.some((n) => names_of_params.has(n)) && names.every((n) => names_of_params.has(n) || words_of_formulas.has(n));
};
const formulas = sweep.columns.map((_, c) => is_formula(c));
const formula_of = sweep.columns.map((column, c) => (!column.known && !formulas[c] && formulas[c + 1] ? c + 1 : -1));
const has_answer = (c) => Boolean(sweep.columns[c].known) || formula_of[c] >= 0;
const known = (n, c) => {
  if (formula_of[c] >= 0) return value(sweep.rows[n], formula_of[c]);
  const k = sweep.columns[c].known;
  return k && Number.isFinite(k[n]) ? k[n] : null;
};
const values = sweep.parameters.map((_, i) => [...new Set(sweep.rows.map((r) => r[1 + i]))].sort((a, b) => a - b));
const varied = values.map((v, i) => i).filter((i) => values[i].length > 1);

// ---- words
for (const id of ['solvers', 'look', 'recorded']) $(id).hidden = true;
$('swept').hidden = $('rows').hidden = false;
const title = sweep.scene.title || sweep.title || sweep.scene.file;
$('title').textContent = title;
$('setting').textContent = [...(title === sweep.scene.file ? [] : [sweep.scene.file]), `${sweep.cases} ${sweep.cases === 1 ? 'case' : 'cases'}${sweep.random ? ', random samples' : ''}`,
  ...sweep.parameters.map((p, i) => (values[i].length === 0 ? p.name : values[i].length === 1 ? `${p.name} = ${plain(values[i][0])}`
    : `${p.name} from ${plain(values[i][0], 4)} to ${plain(values[i][values[i].length - 1], 4)}${sweep.random ? '' : `, ${values[i].length} values`}`))].join(' · ');
const verdict = [], all = sweep.cases === 1;
if (sweep.cases === 0) verdict.push('No case was run: this part of the sweep has none.');
else if (sweep.failed) verdict.push(sweep.failed === sweep.cases ? (all ? 'The case failed. The table gives the reason.' : `All ${sweep.cases} cases failed. The table gives the reasons.`) : `${sweep.failed} of ${sweep.cases} cases failed. The table gives the reasons.`);
else verdict.push(all ? 'The case finished.' : `All ${sweep.cases} cases finished.`);
if (!sweep.columns.length) verdict.push('Nothing was recorded: the scene has no [[log]] and no [[expect]], and the command has no --column.');
let bad = sweep.failed > 0, open = sweep.cases === 0 || !sweep.columns.length;
// How far the results are from the answers that follow the parameters.
sweep.columns.forEach((column, c) => {
  if (!has_answer(c)) return;
  let most = null, size = 0;
  sweep.rows.forEach((row, n) => { const x = value(row, c), y = known(n, c); if (x !== null && y !== null) { most = Math.max(most ?? 0, Math.abs(x - y)); size = Math.max(size, Math.abs(y)); } });
  if (most === null) return;
  const within = typeof column.tolerance === 'number' ? most <= column.tolerance : null;
  bad = bad || within === false;
  open = open || (within === null && most > 1e-6 * size);
  verdict.push(most === 0 ? `${shown(c)} is equal to the known answer in every case.` : `${shown(c)} differs from the known answer by at most ${brief(most)}${unit(c)}${within === false ? `, more than the tolerance of ${plain(column.tolerance)}` : ''}.`);
});
for (const line of verdict) $('verdict').append(make('p', line));
$('verdict').className = bad ? 'bad' : open ? 'open' : '';

// ---- eigenvalues of sweep --linearize: pairs of columns, a real and an imaginary part
const parts = sweep.columns.map((column, c) => (/^real part \d+ \[1\/s\]$/.test(column.name) ? c : -1)).filter((c) => c >= 0);
const planes = parts.length ? [['eigenvalues in their plane (root locus)', 'plane'], ['real parts of all eigenvalues', 'real'], ['imaginary parts of all eigenvalues', 'imaginary']] : [];
const eigenvalues = (row) => parts.map((c) => [value(row, c), value(row, c + 1)]).filter(([x, y]) => x !== null && y !== null);

// ---- choices
const choose = (id, list, now) => {
  list.forEach(([text, v]) => $(id).append(make('option', text, { value: String(v) })));
  $(id).value = String(now);
  $(id).onchange = draw;
};
const moves = sweep.columns.map((_, c) => new Set(sweep.rows.map((r) => value(r, c)).filter((x) => x !== null)).size > 1);
// The last is what was asked for on the command line; better one with a known answer.
let start = sweep.columns.findIndex((_, c) => has_answer(c));
for (let c = sweep.columns.length - 1; c >= 0 && start < 0; --c) if (moves[c] && !formulas[c]) start = c;
choose('quantity', [...planes, ...sweep.columns.map((_, i) => [shown(i), i])], planes.length && !sweep.columns.some((_, c) => has_answer(c)) ? 'plane' : Math.max(start, 0));
choose('over', sweep.parameters.map((p, i) => [p.name, i]), varied[0] ?? 0);
choose('and', [['one parameter only', -1], ...varied.map((i) => [sweep.parameters[i].name, i])], !sweep.random && varied.length > 1 ? varied[1] : -1);
choose('against', [['nothing', -1], ...sweep.columns.map((_, i) => [shown(i), i])], -1);
if (varied.length < 2) $('over').parentElement.hidden = true;
// A logarithmic axis is offered where values are positive and far apart, and taken where they are spread by factors.
const spread = (list) => {
  const s = list.filter((x) => x !== null).sort((a, b) => a - b), low = s[0], high = s[s.length - 1], middle = s[s.length >> 1];
  if (s.length < 3 || !(low > 0) || high < 50 * low) return [false, false];
  return [true, Math.abs(Math.log(middle / low) / Math.log(high / low) - 0.5) < Math.abs((middle - low) / (high - low) - 0.5)];
};
const log_of = new Map();
function logarithmic(id, key, name, list) {
  const [may, better] = spread(list);
  $(id).parentElement.hidden = !may;
  $(id).nextElementSibling.textContent = `${name} logarithmic`;
  if (!log_of.has(key)) log_of.set(key, better);
  $(id).checked = may && log_of.get(key);
  $(id).onchange = () => { log_of.set(key, $(id).checked); draw(); };
  return $(id).checked;
}
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
const wide = () => (paper.matches ? 680 : $('sweep-plot').clientWidth), tall = () => (paper.matches ? 400 : window.innerWidth < 560 ? 330 : 470);

// cells[i][k]: a number, 'failed', 'none' for a case without this quantity; undefined where there is no case.
function map(cells, xs, ys, xname, yname, marks, logs) {
  const host = $('sweep-plot'), colours = theme(), width = wide(), height = tall(), ratio = paper.matches ? 3 : devicePixelRatio;
  const canvas = make('canvas', null, { width: width * ratio, height: height * ratio, className: 'map' }), c = canvas.getContext('2d');
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  host.append(canvas);
  c.scale(ratio, ratio);
  const left = 70, right = width - 96, top = 14, bottom = height - 46;
  const across = ruler(xs, logs[0]), up = ruler(ys, logs[1]), colour = ruler(cells.flat().filter((v) => typeof v === 'number'), logs[2]);
  const edges = (v) => [v[0] - (v[1] - v[0]) / 2, ...v.slice(1).map((b, i) => (v[i] + b) / 2), v[v.length - 1] + (v[v.length - 1] - v[v.length - 2]) / 2];
  const ex = edges(xs.map(across.to)), ey = edges(ys.map(up.to)), ends = (e) => [e[0], e[e.length - 1]];
  const X = (v) => left + ((v - ex[0]) / (ex[ex.length - 1] - ex[0])) * (right - left), Y = (v) => bottom - ((v - ey[0]) / (ey[ey.length - 1] - ey[0])) * (bottom - top);
  const { low, high } = colour, one = !(high - low > 1e-12 * Math.max(Math.abs(low), Math.abs(high))), to = (v) => (one ? 0.5 : (colour.to(v) - low) / (high - low));
  const whole = (x) => Math.round(x * ratio) / ratio;  // of the screen's points, so that cells meet
  cells.forEach((column, i) => column.forEach((v, k) => {
    if (v === undefined) return;
    const x = whole(X(ex[i])), y = whole(Y(ey[k + 1])), w = whole(X(ex[i + 1])) - x, h = whole(Y(ey[k])) - y;
    c.fillStyle = typeof v === 'string' ? colours.line : shade(to(v));
    c.fillRect(x, y, w, h);
    if (typeof v !== 'string') return;
    const r = Math.max(Math.min(w, h, 12) / 3, 1.2);
    c.strokeStyle = v === 'failed' ? vermilion : colours.soft;
    c.lineWidth = Math.min(1.5, r);
    dot(c, v === 'failed' ? 'cross' : 'ring', x + w / 2, y + h / 2, r);
    c.stroke();
  }));
  c.strokeStyle = colours.line;
  c.lineWidth = 1;
  c.strokeRect(left, top, right - left, bottom - top);
  c.fillStyle = c.strokeStyle = colours.soft;
  c.font = '12px system-ui, "Segoe UI", Roboto, Arial, sans-serif';
  const tick = (x, y, dx, dy) => { c.beginPath(); c.moveTo(x, y); c.lineTo(x + dx, y + dy); c.stroke(); };
  c.textAlign = 'center';
  c.textBaseline = 'top';
  const tx = across.marks(...ends(ex), Math.max(2, (right - left) / 60)), ty = up.marks(...ends(ey), (bottom - top) / 45);
  tx.text.forEach((text, i) => { tick(X(tx.at[i]), bottom, 0, 4); c.fillText(text, X(tx.at[i]), bottom + 7); });
  c.fillText(xname + across.power, (left + right) / 2, bottom + 27);
  c.textAlign = 'right';
  c.textBaseline = 'middle';
  ty.text.forEach((text, i) => { tick(left, Y(ty.at[i]), -4, 0); c.fillText(text, left - 8, Y(ty.at[i])); });
  c.save();
  c.translate(12, (top + bottom) / 2);
  c.rotate(-Math.PI / 2);
  c.textAlign = 'center';
  c.fillText(yname + up.power, 0, 0);
  c.restore();
  const bar = right + 18, fade = c.createLinearGradient(0, bottom, 0, top);
  scale.forEach((rgb, i) => fade.addColorStop(i / (scale.length - 1), `rgb(${rgb.join(',')})`));
  c.fillStyle = one ? shade(0.5) : fade;
  if (Number.isFinite(low)) c.fillRect(bar, top, 14, bottom - top);
  c.fillStyle = colours.soft;
  c.textAlign = 'left';
  if (!one) {
    const { at, text, base } = colour.marks(low, high, (bottom - top) / 50);
    text.forEach((t, i) => c.fillText(t, bar + 19, bottom - ((at[i] - low) / (high - low)) * (bottom - top)));
    if (base || colour.power) c.fillText(base + colour.power, bar - 4, bottom + 14);
  } else if (Number.isFinite(low)) c.fillText(plain(low, 5), bar + 19, (top + bottom) / 2);
  for (const [x, y] of marks) {
    c.fillStyle = vermilion;
    c.strokeStyle = '#fff';
    c.lineWidth = 1.5;
    dot(c, 'diamond', X(across.to(x)), Y(up.to(y)), 7);
    c.fill();
    c.stroke();
  }
  picture = { destroy() { canvas.remove(); } };
}

// All eigenvalues of the cases, coloured by the parameter: in their plane, or one of their parts over the parameter.
function draw_eigenvalues([, id], chosen, over, xlog) {
  const name = sweep.parameters[over].name, list = values[over], last = list.length - 1, low = list[0], high = list[last];
  const along = (v) => (high > low ? 0.05 + 0.8 * ((xlog ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low))) : 0.4);
  const all = chosen.flatMap(([row]) => eigenvalues(row).map(([x, y]) => [x, y, row[1 + over]])), plane = id === 'plane', entries = [];
  const series = [['decays', 'dot', (x) => x < 0], ['grows', 'cross', (x) => x > 0], ['keeps its size', 'ring', (x) => x === 0]].map(([text, kind, holds]) => {
    const some = all.filter(([x]) => holds(x));
    if (some.length) entries.push([text, theme().soft, kind === 'dot' ? 'dots' : kind]);
    return { x: some.map(([x, , v]) => (plane ? x : v)), y: some.map(([x, y]) => (id === 'real' ? x : y)), colour: blue, colours: some.map(([, , v]) => shade(along(v))), kind, points: true, radius: kind === 'dot' ? 3 : 4 };
  }).filter((one) => one.x.length).sort((a, b) => (b.kind === 'ring') - (a.kind === 'ring'));
  for (const k of plane && last > 0 ? [0, last >> 1, last].filter((v, i, all) => i === 0 || v > all[i - 1]) : []) entries.push([`${name} = ${plain(list[k], 4)}`, shade(along(list[k])), 'dots']);
  for (const id of ['log-y', 'log-z']) $(id).parentElement.hidden = true;
  if (series.length) picture = points($('sweep-plot'), series, { width: wide(), height: tall(), xname: plane ? 'real part [1/s]' : name, yname: id === 'real' ? 'real part [1/s]' : 'imaginary part [rad/s]', xlog: !plane && xlog, plane });
  else $('sweep-plot').append(make('div', 'There is nothing to draw: no case has eigenvalues.', { className: 'none' }));
  legend($('swept-legend'), entries);
}

function draw() {
  if (picture) picture.destroy();
  picture = null;
  $('sweep-plot').textContent = '';
  const all = planes.find(([, id]) => id === $('quantity').value), q = all ? parts[0] : Number($('quantity').value), over = Number($('over').value), other = Number($('against').value), column = sweep.columns[q];
  const nothing = sweep.cases === 0 ? 'There is nothing to draw: no case was run.' : sweep.columns.length ? '' : 'There is nothing to draw: no quantity was recorded.';
  for (const e of $('swept').querySelectorAll('.bar')) e.hidden = nothing !== '';
  if (nothing) {
    $('sweep-plot').append(make('div', nothing, { className: 'none' }));
    document.body.dataset.drawn = 'none';
    return;
  }
  if (all) for (const id of ['and', 'against']) $(id).value = '-1';
  $('and').parentElement.hidden = Boolean(all) || varied.length < 2 || sweep.random;
  $('against').parentElement.hidden = Boolean(all) || sweep.columns.length < 2;
  let and = Number($('and').value);
  if (and === over) { and = -1; $('and').value = '-1'; }
  const free = (i) => i === over || i === and || sweep.random || values[i].length < 2;
  fixed.forEach((f, i) => { f.box.hidden = free(i); });
  const chosen = sweep.rows.map((row, n) => [row, n]).filter(([row]) => fixed.every((f, i) => free(i) || row[1 + i] === values[i][Number(f.select.value)]));
  const name = (i) => sweep.parameters[i].name, own = sweep.parameters.map((p) => p.own);
  const held = sweep.parameters.map((_, i) => i).filter((i) => !free(i)).map((i) => `${name(i)} = ${plain(values[i][Number(fixed[i].select.value)])}`);
  const inside = (i) => own[i] !== null && values[i].length > 0 && own[i] >= values[i][0] && own[i] <= values[i][values[i].length - 1];
  // The one place where an answer that is a number is known to be true.
  const here = column.at_own !== null && !has_answer(q) && sweep.parameters.every((_, i) => (i === over || i === and ? inside(i) : values[i].length === 1 || sweep.random ? values[i][0] === own[i] : values[i][Number(fixed[i].select.value)] === own[i]));
  const xlog = logarithmic('log-x', `x${over}`, name(over), values[over]), entries = [];
  if (all) {
    draw_eigenvalues(all, chosen, over, xlog);
    $('sweep-note').textContent = held.length ? `${held.join('; ')}.` : '';
    document.body.dataset.drawn = 'yes';
    return;
  }
  let off = null;
  for (const [row, n] of chosen) {
    const v = value(row, q), k = known(n, q);
    if (v !== null && k !== null) off = Math.max(off ?? 0, Math.abs(v - k));
  }
  const agreement = off === null ? '' : `the difference from the known answer is at most ${brief(off)}${unit(q)}`;
  if (and >= 0 && !sweep.random) {
    const cells = values[over].map(() => values[and].map(() => undefined));
    for (const [row] of chosen) {
      const v = value(row, q), less = other >= 0 ? value(row, other) : 0;
      cells[values[over].indexOf(row[1 + over])][values[and].indexOf(row[1 + and])] = !ok(row) ? 'failed' : v === null || less === null ? 'none' : v - less;
    }
    const all = cells.flat();
    const logs = [xlog, logarithmic('log-z', `x${and}`, name(and), values[and]), logarithmic('log-y', `y${q} ${other}`, 'quantity', all.filter((v) => typeof v === 'number'))];
    map(cells, values[over], values[and], name(over), name(and), here && other < 0 ? [[own[over], own[and]]] : [], logs);
    if (all.includes('failed')) entries.push(['failed', vermilion, 'cross']);
    if (all.includes('none')) entries.push(['finished, but has no such value', theme().soft, 'ring']);
    if (here && other < 0) entries.push([`known answer here: ${plain(column.at_own, 8)}`, vermilion, 'diamond']);
    legend($('swept-legend'), entries);
    $('sweep-note').textContent = [`Colour: ${shown(q)}${other >= 0 ? `, minus ${shown(other)}` : ''}`, ...held, ...(agreement && other < 0 ? [agreement] : [])].join('; ') + '.';
  } else {
    const sorted = chosen.slice().sort((a, b) => a[0][1 + over] - b[0][1 + over]);
    const x = sorted.map(([row]) => row[1 + over]), scatter = sweep.random;
    const series = [{ x, y: sorted.map(([row]) => value(row, q)), colour: blue, line: !scatter, points: true, kind: 'dot' }];
    entries.push([shown(q), blue, scatter ? 'dots' : 'line']);
    const answer = sorted.map(([, n]) => known(n, q)), kind = scatter ? 'ring' : 'dashed';
    if (answer.some((y) => y !== null)) { series.push({ x, y: answer, colour: vermilion, line: !scatter, points: scatter, kind }); entries.push([formula_of[q] >= 0 ? `known answer: ${shown(formula_of[q])}` : 'known answer', vermilion, kind]); }
    if (here) { series.push({ x: [own[over]], y: [column.at_own], colour: vermilion, points: true, kind: 'diamond' }); entries.push([`known answer at ${name(over)} = ${plain(own[over])}: ${plain(column.at_own, 8)}`, vermilion, 'diamond']); }
    if (other >= 0) { series.push({ x, y: sorted.map(([row]) => value(row, other)), colour: '#009e73', line: !scatter, points: scatter, kind }); entries.push([shown(other), '#009e73', kind]); }
    const drawable = series.some((s) => s.y.some((y) => y !== null));
    const floor = (rows, colour, kind, text) => { if (rows.length) { series.push({ x: rows.map(([row]) => row[1 + over]), y: [], colour, points: true, kind, floor: true }); entries.push([text, colour, kind]); } };
    floor(sorted.filter(([row]) => !ok(row)), vermilion, 'cross', 'failed');
    floor(sorted.filter(([row]) => ok(row) && value(row, q) === null), theme().soft, 'ring', 'finished, but has no such value');
    $('log-z').parentElement.hidden = true;
    const ylog = logarithmic('log-y', `y${q} ${other}`, 'quantity', series.flatMap((s) => s.y));
    if (drawable) picture = points($('sweep-plot'), series, { width: wide(), height: tall(), xname: name(over), yname: shown(q), xlog, ylog });
    else $('sweep-plot').append(make('div', 'There is nothing to draw: no case has this quantity.', { className: 'none' }));
    legend($('swept-legend'), entries);
    const note = [...held, ...(agreement ? [agreement] : [])].join('; ');
    $('sweep-note').textContent = note && note[0].toUpperCase() + note.slice(1) + '.';
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
  if (sweep.every > 1) words.push(`This page has one of every ${sweep.every} cases. The table that the command wrote has all of them.`);
  if (shown.length > most) words.push(`${most} of ${shown.length} rows are shown${sweep.failed ? ', failed ones first' : ''}. The download has all of them.`);
  $('rows-note').textContent = words.join(' ');
  $('csv-cases').onclick = () => save(`${sweep.scene.file.replace(/\.[^.]*$/, '')}-sweep.csv`, [names, ...sweep.rows]);
}
if (!sweep.rows.length) $('rows').hidden = true;
const add = (key, text, code) => { const dd = make('dd'); dd.append(code ? make('code', text) : text); $('made').append(make('dt', key), dd); };
for (const command of sweep.commands) add('command', command, true);
add('made by', `linchpin ${sweep.linchpin}, ${sweep.compiler}; cases run on the host bare, in double precision`);
if (sweep.scene.text) {
  $('scene-text').hidden = false;
  $('scene-text').querySelector('pre').textContent = sweep.scene.text;
}

let width = 0;
window.addEventListener('resize', () => { if (window.innerWidth !== width && !paper.matches) { width = window.innerWidth; draw(); } });
dark.addEventListener('change', draw);
paper.addEventListener('change', (e) => { $('scene-text').open = e.matches; draw(); });
draw();
width = window.innerWidth;
document.body.dataset.ready = 'yes';
