// Opens reports in a headless Chromium, as a double click would, and looks at what is there.
//   node report_test.mjs BIN_DIR SOURCE_DIR [PICTURES_DIR]
// Exit code 77, with a message, where there is no Chromium.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Browser, find } from '../../tools/report/chromium.mjs';
import { label, prefixed, ticks } from '../../tools/report/src/number.js';

const [, , bin, source, pictures = 'report-pictures'] = process.argv;
const program = find();
if (!program) {
  console.log('skipped: no Chromium (Debian: chromium), so nobody to open a report');
  process.exit(77);
}
mkdirSync(pictures, { recursive: true });

let failed = 0;
function holds(what, yes, got) {
  if (yes) return;
  ++failed;
  console.log(`FAILED: ${what}${got === undefined ? '' : `: ${JSON.stringify(got)}`}`);
}
const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });
const linchpin = (...args) => execFileSync(join(bin, 'linchpin'), args, { encoding: 'utf8', maxBuffer: 1 << 28 });
const of = (html) => JSON.parse(readFileSync(html, 'utf8').split('<script type="application/json" id="recording">')[1].split('</script>')[0]);

// The page with other data in it.
const refill = (html, out, change) => {
  const [head, rest] = readFileSync(html, 'utf8').split('<script type="application/json" id="recording">'), json = JSON.parse(rest.slice(0, rest.indexOf('</script>')));
  const text = change(json) ?? JSON.stringify(json);
  writeFileSync(out, `${head}<script type="application/json" id="recording">${text.replace(/</g, '\\u003c')}${rest.slice(rest.indexOf('</script>'))}`);
  return out;
};
const html = resolve(pictures, 'comparison.html'), scenes = join(source, 'demos', 'scenes');
const json = JSON.parse(linchpin('compare', join(scenes, 'bridge.bullet'), '--with', 'exact,bullet:si,bullet:mlcp', '--duration', '1', '--json', '--report', html));
holds('a report of three runs is well below 1 MB', statSync(html).size <= 9e5, statSync(html).size);

// Ticks are told apart, with what they have in common beside them where that is most of a number.
for (const list of [[9810, 9810.0001, 9810.0002], [2.1e23, 2.11e23, 2.12e23], [0, 0.2, 0.4], [1e-7, 1.5e-7], [-3, 0, 3]]) {
  const { text, base } = ticks(list);
  holds(`ticks of ${list}`, new Set(text).size === list.length && new Set(label(list)).size === list.length, text);
  text.forEach((t, i) => holds(`tick ${t} of ${list}`, Math.abs(Number(base.replace(' +', '')) + Number(t) - list[i]) <= 1e-12 * Math.abs(list[i]), base));
}
holds('a large number has a prefix', prefixed(1.5e10, 'N') === '15 GN' && prefixed(0.0021, 'm') === '2.1 mm', prefixed(1.5e10, 'N'));
holds('the page has the comparison that was printed', JSON.stringify(of(html).comparison.solvers) === JSON.stringify(json.solvers));

const seek = (at) => `(() => { const s = document.getElementById('scrub'); s.value = ${at}; s.dispatchEvent(new Event('input')); })()`;
// How much of a canvas is painted in other than its commonest colour.
const painted = (selector) => `[...document.querySelectorAll('${selector}')].filter((c) => c.offsetParent).map((c) => {
  const copy = Object.assign(document.createElement('canvas'), { width: c.width, height: c.height }), x = copy.getContext('2d');
  x.drawImage(c, 0, 0);
  const d = x.getImageData(0, 0, c.width, c.height).data, colours = new Map();
  for (let i = 0; i < d.length; i += 4) { const k = d[i + 3] < 8 ? 'none' : d[i] + ',' + d[i + 1] + ',' + d[i + 2]; colours.set(k, (colours.get(k) || 0) + 1); }
  return { part: 1 - Math.max(...colours.values()) / (d.length / 4), blue: colours.get('0,114,178') || 0, hash: [...colours].sort().join(';').length + ':' + d.reduce((a, v, i) => (a * 31 + v + i) % 1000003, 7) };
})`;

async function opened(browser, size, file) {
  const page = await browser.page(size);
  await page.open(`file://${resolve(file)}`);
  for (let i = 0; i < 600 && (await page.value('document.body.dataset.ready')) !== 'yes'; ++i) await wait(100);
  return page;
}
const choose = (id, value) => `(() => { const e = document.getElementById('${id}'); e.value = ${JSON.stringify(String(value))}; e.dispatchEvent(new Event('change')); })()`;
const words = (page, id) => page.value(`document.getElementById('${id}').textContent`);

async function check(browser, name, size, webgl) {
  const started = Date.now(), page = await opened(browser, size, html);
  const took = Date.now() - started;
  holds(`${name}: ready`, (await page.value('document.body.dataset.ready')) === 'yes', page.errors);
  holds(`${name}: title`, (await page.value('document.title')) === 'bridge.bullet – linchpin report', await page.value('document.title'));
  const verdict = await page.value(`document.getElementById('verdict').textContent`);
  holds(`${name}: verdict`, /^In double precision, exact keeps every joint closed to \d\.\de-1\d m\. The best native solver, bullet:si, leaves a gap of /.test(verdict), verdict);
  holds(`${name}: WebGL`, (await page.value('document.body.dataset.webgl')) === (webgl ? 'yes' : 'no'));
  holds(`${name}: says why there is no 3D view, or shows it`, (await page.value(`document.getElementById('nogl').hidden`)) === webgl);

  // Every number of the table is that of the JSON, to the last digit; what is seen of it is that number, rounded.
  const rows = await page.value(`[...document.querySelectorAll('#table tbody tr')].map((tr) => ({ name: tr.cells[0].textContent, precision: tr.cells[1].textContent, cells: [...tr.cells].filter((c) => c.dataset.column).map((c) => [c.dataset.column, c.dataset.value, c.textContent]) }))`);
  holds(`${name}: a row per solver`, rows.length === json.solvers.length, rows.length);
  const key = { 'time per step [µs]': 'ns_per_step', 'largest gap [m]': 'max_gap_m', 'rms gap [m]': 'rms_gap_m', 'largest gap [rad]': 'max_gap_rad', 'energy error [J]': 'max_energy_error_J', 'force error [relative, rms]': 'force_rms_error_rel', 'impulse error [relative, rms]': 'impulse_rms_error_rel' };
  rows.forEach((row, i) => {
    const solver = json.solvers[i];
    holds(`${name}: solver ${i}`, row.name === solver.name && row.precision === solver.precision, row);
    holds(`${name}: ${row.name} has all columns`, row.cells.length === Object.keys(key).length, row.cells.length);
    for (const [column, value, text] of row.cells) {
      const x = solver[key[column]], scaled = x === null ? null : column.startsWith('time') ? x / 1000 : x;
      holds(`${name}: ${row.name}, ${column}`, scaled === null ? value === '' && text === '–' : Number(value) === scaled, [value, scaled]);
      if (scaled !== null) holds(`${name}: ${row.name}, ${column} as shown`, Math.abs(Number(text) - scaled) <= 0.051 * Math.max(Math.abs(scaled), column.startsWith('time') ? 1 : 0), [text, scaled]);
    }
  });

  await page.value(seek(0.6));
  const plots = await page.value(painted('.plot canvas'));
  holds(`${name}: four plots`, plots.length === 4, plots.length);
  for (const p of plots) holds(`${name}: a plot with a grid and the exact run's line`, p.part > 0.005 && p.blue > 30, p);
  holds(`${name}: nothing wider than the page`, await page.value('document.documentElement.scrollWidth <= window.innerWidth'), await page.value('document.documentElement.scrollWidth'));

  if (webgl) {
    const still = async (at) => { await page.value(seek(at)); await page.value('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))'); return (await page.value(painted('#canvas')))[0]; };
    const first = await still(0.02), second = await still(0.6);
    holds(`${name}: the scene is drawn`, first.part > 0.01, first);
    holds(`${name}: it moves`, first.hash !== second.hash);
  }
  // What is bold is seen to be better than something; every line of a legend is a line of its own.
  const columns = rows[0].cells.map(([column]) => column), bold = await page.value(`[...document.querySelectorAll('#table td.best')].map((td) => [td.dataset.column, td.textContent])`);
  for (const [column, text] of bold) holds(`${name}: bold ${column}`, rows.some((row) => row.cells[columns.indexOf(column)][2] !== text), text);
  const lines = await page.value(`[...document.querySelectorAll('#legend .swatch')].map((s) => s.dataset.line)`);
  holds(`${name}: a style of line for every run`, lines.length === json.solvers.length && new Set(lines).size === lines.length, lines);
  holds(`${name}: says what the errors are`, /Force error: .*Impulse error: /.test(await words(page, 'meaning')), await words(page, 'meaning'));
  // The stabilising part of one constraint has an axis of its own, with words to it.
  await page.value(choose('link', 2));
  holds(`${name}: stabilisation beside the reaction`, /^Stabilisation \[N\], .*\. Besides the reaction/.test(await words(page, 'stabilisation-title')) && (await page.value(`document.getElementById('stabilisation').offsetParent !== null`)), await words(page, 'stabilisation-title'));
  await page.value(choose('link', -1));
  if (size.width > 980) {
    const ends = await page.value(`[...document.querySelectorAll('#phase-card, #plots')].map((e) => e.getBoundingClientRect().bottom)`);
    holds(`${name}: both columns end at one height`, Math.abs(ends[0] - ends[1]) < 20, ends);
  }
  const at = () => page.value('Number(document.body.dataset.time)');
  const frame = of(html).motions[0].every * of(html).motions[0].dt;
  await page.value(seek(0));
  await page.key('ArrowRight');
  holds(`${name}: an arrow key steps a frame`, Math.abs((await at()) - frame) < 1e-6, [await at(), frame]);
  await page.value(seek(0));
  await page.value(`document.getElementById('speed').value = '0.25'`);
  await page.key(' ');
  let t = await at();
  for (let i = 0; i < 100 && t === 0; ++i) { await wait(100); t = await at(); }
  holds(`${name}: playback moves`, t > 0 && t <= 1, t);
  await page.key(' ');
  t = await at();
  await wait(200);
  holds(`${name}: and stops`, (await at()) === t);

  await page.value(seek(0.6));
  writeFileSync(join(pictures, `${name}.png`), await page.picture());
  if (name === 'desktop' || name === 'desktop-without-webgl') {
    await page.send('Emulation.setEmulatedMedia', { media: 'print' });
    await page.send('Emulation.setDeviceMetricsOverride', { width: 720, height: 1000, deviceScaleFactor: 1, mobile: false });
    await wait(300);
    holds(`${name}: printed, nothing is wider than the paper`, await page.value('document.documentElement.scrollWidth <= 720'), await page.value('document.documentElement.scrollWidth'));
    holds(`${name}: printed, no table is cut off`, await page.value(`[...document.querySelectorAll('.wide')].every((w) => w.scrollWidth <= 720)`), await page.value(`[...document.querySelectorAll('.wide')].map((w) => w.scrollWidth)`));
    writeFileSync(join(pictures, `${name.replace('desktop', 'print')}.png`), await page.picture());
    const { data } = await page.send('Page.printToPDF', { printBackground: true, preferCSSPageSize: true });
    holds(`${name}: prints`, Buffer.from(data, 'base64').subarray(0, 5).toString() === '%PDF-');
  }
  holds(`${name}: no complaint`, page.errors.length === 0, page.errors);
  holds(`${name}: nothing asked of a network`, page.requests.every((url) => url.startsWith('file://') || url.startsWith('data:')) && page.requests.filter((url) => url.startsWith('file://')).length === 1, page.requests);
  console.log(`${name}: open after ${took} ms`);
}

// A sweep: a throw that the scene knows the answer of, over one parameter and over two, and one case that is no scene.
writeFileSync(join(pictures, 'throw.toml'), `schema = 2
[params]
v = 3.0
g = 9.81
m = 1.0
[world]
gravity = [0, "-g", 0]
duration = 0.5
dt = 0.01
[[body]]
name = "ball"
kind = "particle"
mass = "m"
velocity = [0, "v", 0]
[[expect]]
value = "ball.y"
at = 0.5
is = "v*0.5 - g*0.125"
tolerance = 1e-9
[[expect]]
value = "ball.velocity.y"
at = 0.5
is = -1.905
tolerance = 1e-9
[solver]
method = "rk4"
`);
async function sweep(browser, name, size, sets, cases, bad) {
  const page = await browser.page(size), table = join(pictures, `${name}.csv`), page_file = resolve(pictures, `${name}.html`);
  rmSync(table, { force: true });
  const out = spawnSync(join(bin, 'linchpin'), ['sweep', join(pictures, 'throw.toml'), ...sets.flatMap((s) => ['--set', s]), '--out', table, '--report', page_file, '-j', '2'], { encoding: 'utf8' });
  holds(`${name}: exit code`, out.status === (bad ? 4 : 0), out.stderr);
  await page.open(`file://${page_file}`);
  for (let i = 0; i < 300 && (await page.value('document.body.dataset.ready')) !== 'yes'; ++i) await wait(100);
  holds(`${name}: title`, (await page.value('document.title')) === 'throw.toml – linchpin sweep', page.errors);
  const verdict = await page.value(`document.getElementById('verdict').textContent`);
  holds(`${name}: verdict`, verdict.startsWith(bad ? `${bad} of ${cases} cases failed` : `All ${cases} cases finished.`), verdict);
  if (!bad) holds(`${name}: says how far it is from the known answer`, /ball\.y at [\d.]+ s( \[m\])? (is equal to|differs from) the known answer/.test(verdict), verdict);
  // The numbers on the page are those of the file, all of them: a case that failed has none.
  const lines = readFileSync(table, 'utf8').trim().split('\n').slice(1).map((line) => line.split(','));
  const rows = await page.value(`[...document.querySelectorAll('#cases tbody tr')].map((tr) => [...tr.cells].map((c) => c.dataset.value ?? null))`);
  holds(`${name}: a row per case`, rows.length === cases && lines.length === cases, rows.length);
  const y = sets.length + 3, by = new Map(lines.map((line) => [line[0], line]));
  for (const row of rows) holds(`${name}: case ${row[0]}`, row[y] === null ? !by.get(row[0]).includes('ok') : Number(row[y]) === Number(by.get(row[0])[y]), [row, by.get(row[0])]);
  const drawn = await page.value(painted('#sweep-plot canvas'));
  holds(`${name}: one picture`, drawn.length === 1 && drawn[0].part > 0.01, drawn);
  // The same picture with the other expectation, which is a number: true of the scene's own parameters alone.
  await page.value(`(() => { const q = document.getElementById('quantity'); q.value = '1'; q.dispatchEvent(new Event('change')); })()`);
  holds(`${name}: the number that is known is marked`, /known/.test(await page.value(`document.getElementById('swept-legend').textContent`)), await page.value(`document.getElementById('swept-legend').textContent`));
  holds(`${name}: nothing wider than the page`, await page.value('document.documentElement.scrollWidth <= window.innerWidth'), await page.value('document.documentElement.scrollWidth'));
  holds(`${name}: no complaint`, page.errors.length === 0, page.errors);
  holds(`${name}: nothing asked of a network`, page.requests.every((url) => url.startsWith('file://') || url.startsWith('data:')), page.requests);
  writeFileSync(join(pictures, `${name}.png`), await page.picture());
}

// Data that is damaged is said to be, and what can be shown is shown.
async function damaged(browser) {
  const base = (of) => (json) => { of(json.motions[0]); };
  const cases = {
    'cut column': [base((m) => { m.columns.t = m.columns.t.slice(0, 40); }), /The motion of exact cannot be drawn: its column "t" has \d+ bytes/],
    'no base64': [base((m) => { m.columns.force = '?'; }), /its column "force" is not base64/],
    'too many frames': [base((m) => { m.frames = 1e9; }), /cannot be drawn: its column/],
    'negative frames': [base((m) => { m.frames = -1; }), /cannot be drawn: -1 frames/],
    'no step': [base((m) => { m.every = 0; }), /^In double precision/],
    'no comparison': [(json) => { delete json.comparison; }, /^This page cannot be drawn\. Its data are damaged/],
    'no JSON': [() => '{"kind":', /^This page cannot be drawn\. Its data are damaged/],
  };
  for (const [name, [change, said]] of Object.entries(cases)) {
    const page = await opened(browser, { width: 1000, height: 800 }, refill(html, join(pictures, 'damaged.html'), change));
    holds(`${name}: says so`, said.test(await words(page, 'verdict')), await words(page, 'verdict'));
    holds(`${name}: no empty boxes`, await page.value(`[...document.querySelectorAll('.card')].every((c) => c.hidden || c.offsetParent === null || [...c.querySelectorAll('tr, canvas, dd')].length > 0)`));
    holds(`${name}: no complaint`, page.errors.length === 0, page.errors);
  }
}

// Pages of scenes that were drawn badly once.
async function looks(browser) {
  const run = (name, scene, ...more) => { const out = join(pictures, `${name}.html`); linchpin('run', scene, '--report', out, ...more); return out; };
  const long = 'a body with a name that goes on and on and on, much further than any telephone is wide, to see what becomes of the boxes';
  writeFileSync(join(pictures, 'pendulum.toml'), `schema = 2\n[world]\nduration = 1\n[[body]]\nname = "${long}"\nkind = "particle"\nmass = 1000\nposition = [0.0001, -1, 0]\n[[joint]]\nname = "rod of ${long}"\ntype = "rod"\nb = "${long}"\nat_a = [0, 0, 0]\n`);
  const still = run('pendulum', join(pictures, 'pendulum.toml')), ring = run('ring', join(scenes, 'bead-on-ring.toml')), tumbling = run('tumbling', join(scenes, 'tumbling-body.toml')), sleigh = run('sleigh', join(scenes, 'chaplygin-sleigh.toml'));
  for (const [file, width] of [[still, 320], [still, 390], [still, 1360], [ring, 320], [ring, 390]]) {
    const page = await opened(browser, { width, height: 800, mobile: width < 500 }, file);
    holds(`${file} at ${width}: nothing wider than the page`, await page.value('document.documentElement.scrollWidth <= window.innerWidth'), await page.value('document.documentElement.scrollWidth'));
    holds(`${file} at ${width}: no complaint`, page.errors.length === 0, page.errors);
    if (file === still) holds('a force that hardly changes is written beside its size', /^98(10|09\.\d+) \+$/.test(await page.value(`document.querySelector('#force .base').textContent`)), await page.value(`document.querySelector('#force .base').textContent`));
  }
  let page = await opened(browser, { width: 1360, height: 900 }, tumbling);
  holds('a body that turns on the spot: what it does is chosen', /rotation from the start/.test(await page.value(`document.getElementById('up').selectedOptions[0].textContent`)));
  page = await opened(browser, { width: 1360, height: 900 }, sleigh);
  holds('the gap of what has one is drawn', await page.value(`document.querySelector('#gap canvas') !== null`));
  page = await opened(browser, { width: 1000, height: 800 }, refill(html, join(pictures, 'titled.html'), (json) => {
    json.scene.title = 'A bridge';
    json.verdict = ['No solver finished.'];
    for (const row of json.comparison.solvers) row.status = 'the run stopped at step 0';
    json.motions[0].frames = 1;
    for (const [name, text] of Object.entries(json.motions[0].columns)) { const raw = Buffer.from(text, 'base64'); json.motions[0].columns[name] = raw.subarray(0, raw.length / of(html).motions[0].frames).toString('base64'); }
  }));
  holds('a title is the heading', (await words(page, 'title')) === 'A bridge' && /bridge\.bullet/.test(await words(page, 'setting')), await words(page, 'title'));
  holds('nothing that ran is no success', (await page.value(`document.getElementById('verdict').className`)) === 'bad');
  holds('one state alone: no complaint', page.errors.length === 0, page.errors);
}

// Sweeps against closed forms, and those with holes in them.
async function sweeps(browser) {
  const swept = (name, scene, code, ...more) => {
    const table = join(pictures, `${name}.csv`), page = join(pictures, `${name}.html`);
    rmSync(table, { force: true });
    const out = spawnSync(join(bin, 'linchpin'), ['sweep', join(scenes, scene), ...more, '--out', table, '--report', page, '-j', '2'], { encoding: 'utf8' });
    holds(`${name}: exit code`, out.status === code, out.stderr);
    return page;
  };
  const size = { width: 1100, height: 900 }, kinds = (page) => page.value(`[...document.querySelectorAll('#swept-legend .entry')].map((e) => e.dataset.kind)`);
  const closed = async (name, file, most) => {
    const page = await opened(browser, size, file), verdict = await words(page, 'verdict'), off = verdict.match(/differs from the known answer by at most ([\d.e+-]*\d)/);
    holds(`${name}: the known answer over all of the sweep`, (await kinds(page)).join() === 'line,dashed', await kinds(page));
    holds(`${name}: and how far off it is`, off && Number(off[1]) <= most, verdict);
    holds(`${name}: which is a success`, (await page.value(`document.getElementById('verdict').className`)) === '');
    holds(`${name}: no complaint`, page.errors.length === 0, page.errors);
    return page;
  };
  await closed('speed', swept('speed', 'rough-circle.toml', 0, '--set', 'mu=0:0.5:11', '--until', 'bead.x', '--column', 'norm(bead.velocity)', '--column', 'sqrt(2*g*R*(1 - 2*mu^2 - 3*mu*exp(-pi*mu))/(1 + 4*mu^2))'), 1e-8);
  let page = await closed('angle', swept('angle', 'rotating-hoop.toml', 0, '--set', 'w=1:7:13', '--equilibrium', '--column', 'atan2(hypot(bead.x, bead.z), -bead.y)', '--column', 'atan2(sqrt(((R*w^2)^2 - 9.81^2 + abs((R*w^2)^2 - 9.81^2))/2), 9.81)'), 1e-8);
  await page.value(choose('quantity', 0));
  holds('angle: what is expected of the motion is not said of a place of rest', !(await kinds(page)).includes('diamond'), await kinds(page));

  page = await opened(browser, size, swept('locus', 'bicycle.toml', 0, '--set', 'v=4:7:7', '--linearize'));
  for (const [quantity, shapes] of [['plane', 'dots,cross,ring,dots,dots,dots'], ['real', 'dots,cross,ring'], ['imaginary', 'dots,cross,ring']]) {
    await page.value(choose('quantity', quantity));
    holds(`locus: ${quantity}`, (await kinds(page)).join() === shapes && (await page.value(painted('#sweep-plot canvas')))[0].part > 0.005, await kinds(page));
  }
  await page.value(choose('quantity', 0));
  holds('locus: other columns are drawn as before', (await kinds(page))[0] === 'line' && page.errors.length === 0, page.errors);

  page = await opened(browser, size, swept('holes', 'rough-circle.toml', 4, '--set', 'mu=0:0.6:7', '--set', 'g=1:20:5', '--until', 'bead.x', '--column', 'norm(bead.velocity)'));
  holds('holes: a case that failed is one', (await kinds(page)).join() === 'cross', await kinds(page));
  await page.value(choose('quantity', 0));
  holds('holes: one that ended before is another', (await kinds(page)).slice(0, 2).join() === 'cross,ring', await kinds(page));
  await page.send('Emulation.setEmulatedMedia', { media: 'print' });
  await wait(200);
  holds('holes: printed, the map says of what', /^Colour: norm2\(/.test(await words(page, 'sweep-note')) && (await page.value(`getComputedStyle(document.getElementById('sweep-note')).display`)) === 'block', await words(page, 'sweep-note'));
  writeFileSync(join(pictures, 'holes-print.png'), await page.picture());

  const curve = join(pictures, 'sweep-curve.html'), changed = (name, change) => opened(browser, size, refill(curve, join(pictures, `${name}.html`), change));
  page = await changed('sweep-of-nothing', (json) => { json.columns = []; json.rows = json.rows.map((row) => row.slice(0, 4)); });
  holds('a sweep that recorded nothing says so', /Nothing was recorded/.test(await words(page, 'verdict')) && /no quantity was recorded/.test(await words(page, 'sweep-plot')) && page.errors.length === 0, page.errors);
  page = await changed('sweep-of-one', (json) => { json.rows = json.rows.slice(0, 1); json.cases = 1; });
  holds('one case is one', (await words(page, 'verdict')).startsWith('The case finished.') && page.errors.length === 0, page.errors);
  page = await changed('sweep-of-none', (json) => { json.rows = []; json.cases = 0; json.columns[0].known = []; });
  holds('no case is no success', (await words(page, 'verdict')).startsWith('No case was run') && (await page.value(`document.getElementById('verdict').className`)) === 'open' && page.errors.length === 0, page.errors);
  page = await changed('sweep-far', (json) => { json.rows.forEach((row, i) => { row[1] = 10 ** (i - 4); }); });
  holds('values spread by factors are on a logarithmic axis', await page.value(`document.getElementById('log-x').checked && document.getElementById('log-x').offsetParent !== null`), page.errors);
  page = await changed('sweep-huge', (json) => { json.rows.forEach((row, i) => { row[1] = i * 2e307; row[4] = i * 2e307 - 8e307; }); json.columns[0].known = null; });
  holds('numbers at the end of what there is are drawn', (await page.value(painted('#sweep-plot canvas')))[0].part > 0.01 && page.errors.length === 0, page.errors);
  page = await changed('sweep-off', (json) => { json.columns[0].known = json.columns[0].known.map((x) => x + 0.3); json.columns[0].tolerance = 1e-9; });
  holds('off its known answer is no success', (await page.value(`document.getElementById('verdict').className`)) === 'bad' && /differs from the known answer by at most 3\.0e-01( m)?, more than the tolerance/.test(await words(page, 'verdict')), await words(page, 'verdict'));
  page = await changed('sweep-random', (json) => { json.random = true; });
  holds('known answers of samples leave the samples to be seen', (await kinds(page)).join() === 'dots,ring', await kinds(page));
}

// Modes of a linearised scene: the table of the command, each of them in motion, and the plane of the eigenvalues.
async function modes(browser, webgl) {
  const made = (name, scene, ...more) => { const out = join(pictures, `${name}.html`); return [out, JSON.parse(linchpin('linearize', join(scenes, scene), '--report', out, '--json', ...more))]; };
  const [bicycle, said] = made('bicycle-modes', 'bicycle.toml'), listed = said.modes.filter(({ eigenvalue: [re, im] }) => im >= 0 && (re !== 0 || im !== 0));
  for (const size of [{ width: 1400, height: 900 }, { width: 1400, height: 900, dark: true }, { width: 400, height: 800, mobile: true }]) {
    const page = await opened(browser, size, bicycle), name = `modes at ${size.width}${size.dark ? ', dark' : ''}`;
    holds(`${name}: title`, (await page.value('document.title')) === 'the benchmark bicycle – linchpin modes', page.errors);
    const rows = await page.value(`[...document.querySelectorAll('#table tbody tr')].map((tr) => [...tr.cells].map((c) => c.dataset.value ?? c.textContent))`);
    holds(`${name}: a row for each mode that is not neutral`, rows.length === listed.length && listed.every((m, i) => Number(rows[i][2]) === m.frequency_rad_s && Number(rows[i][4]) === m.damping_ratio), rows);
    holds(`${name}: neutral modes are counted`, /6 neutral modes with the eigenvalue 0/.test(await words(page, 'notes')), await words(page, 'notes'));
    holds(`${name}: the state moves`, /Bodies move at this state/.test(await words(page, 'notes')));
    holds(`${name}: the plane is drawn`, (await page.value(painted('#plane canvas')))[0].part > 0.005);
    holds(`${name}: kinds of eigenvalues differ in shape`, (await page.value(`[...document.querySelectorAll('#plane-legend .entry')].map((e) => e.dataset.kind)`)).join() === 'dots,ring,circle');
    holds(`${name}: the least damped is chosen`, (await page.value('document.body.dataset.mode')) === '2');
    holds(`${name}: 3D view, or why there is none`, (await page.value('document.body.dataset.webgl')) === (webgl ? 'yes' : 'no') && /no WebGL/.test(await words(page, 'notes')) === !webgl, await words(page, 'notes'));
    holds(`${name}: nothing wider than the page`, await page.value('document.documentElement.scrollWidth <= window.innerWidth'), await page.value('document.documentElement.scrollWidth'));
    if (webgl) {
      const still = async (at) => { await page.value(seek(at)); await page.value('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))'); return (await page.value(painted('#canvas')))[0]; };
      for (const mode of [0, 2]) {
        await page.value(`document.querySelectorAll('#table button')[${mode}].click()`);
        holds(`${name}: a choice plays`, (await page.value(`document.getElementById('play').getAttribute('aria-label')`)) === 'Pause');
        const first = await still(0), second = await still(0.15);
        holds(`${name}: mode ${mode + 1} moves`, first.part > 0.01 && first.hash !== second.hash);
      }
    } else await page.value(`document.querySelectorAll('#table button')[2].click()`);
    holds(`${name}: the shape of the mode`, (await words(page, 'shape-title')) === 'Shape of mode 3' && (await page.value(`document.querySelectorAll('#shape tbody tr').length`)) === 4);
    if (webgl) writeFileSync(join(pictures, `modes-${size.width}${size.dark ? '-dark' : ''}.png`), await page.picture());
    holds(`${name}: no complaint`, page.errors.length === 0, page.errors);
    holds(`${name}: nothing asked of a network`, page.requests.every((url) => url.startsWith('file://') || url.startsWith('data:')), page.requests);
  }
  // In generalized coordinates alone, a state that rotates as a whole, one that is not steady, and one without modes.
  const says = async (file, pattern) => {
    const page = await opened(browser, { width: 900, height: 800 }, file);
    holds(`${file}: says it`, pattern.test((await words(page, 'verdict')) + (await words(page, 'notes')) + (await words(page, 'mode-note'))), await words(page, 'notes'));
    holds(`${file}: no complaint`, page.errors.length === 0, page.errors);
  };
  await says(made('angles-modes', 'double-pendulum-angles.toml', '--equilibrium')[0], /only generalized coordinates/);
  await says(made('top-modes', 'steady-top.toml')[0], /steady in a frame that rotates with \(0, 0, 2\.546\d*\) rad\/s\. The page shows the pose at the instant t = 0 s/);
  await says(made('brake-modes', 'brake-squeal.toml')[0], /1 of 2 modes grows/);
  await says(refill(bicycle, join(pictures, 'no-modes.html'), (json) => { json.modes = []; }), webgl ? /There is no mode to draw/ : /neutral/);
  await says(refill(bicycle, join(pictures, 'no-freedom.html'), (json) => { json.modes = []; json.neutral_modes = 0; }), /^The constraints leave no freedom/);
}

for (const webgl of [true, false]) {
  const browser = new Browser(program, webgl ? ['--use-angle=swiftshader', '--enable-unsafe-swiftshader'] : ['--disable-3d-apis']);
  try {
    const without = webgl ? '' : '-without-webgl';
    await check(browser, 'desktop' + without, { width: 1360, height: 900 }, webgl);
    await check(browser, 'phone' + without, { width: 390, height: 844, mobile: true }, webgl);
    await modes(browser, webgl);
    if (!webgl) {
      await sweep(browser, 'sweep-curve', { width: 1100, height: 900 }, ['v=1:5:9'], 9, 0);
      await sweep(browser, 'sweep-map', { width: 1100, height: 900, dark: true }, ['v=1:5:9', 'g=1.81:17.81:9'], 81, 0);
      await sweeps(browser);
      await damaged(browser);
      await sweep(browser, 'sweep-phone', { width: 390, height: 844, mobile: true }, ['v=3', 'm=0:2:5'], 5, 1);
    }
    if (webgl) await looks(browser);
    if (webgl) await check(browser, 'dark', { width: 1360, height: 900, dark: true }, webgl);
  } finally {
    await browser.close();
  }
}
console.log(failed ? `${failed} failed` : `all as it should be; pictures in ${resolve(pictures)}`);
process.exit(failed ? 1 : 0);
