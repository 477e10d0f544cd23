// Opens reports in a headless Chromium, as a double click would, and looks at what is there.
//   node report_test.mjs BIN_DIR SOURCE_DIR [PICTURES_DIR]
// Exit code 77, with a message, where there is no Chromium.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Browser, find } from '../../tools/report/chromium.mjs';

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

const html = resolve(pictures, 'comparison.html'), scenes = join(source, 'demos', 'scenes');
const json = JSON.parse(linchpin('compare', join(scenes, 'bridge.bullet'), '--with', 'exact,bullet:si,bullet:mlcp', '--duration', '1', '--json', '--report', html));
holds('a report of three runs is at most 1 MB', statSync(html).size <= 1e6, statSync(html).size);
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

async function check(browser, name, size, webgl) {
  const page = await browser.page(size), started = Date.now();
  await page.open(`file://${html}`);
  for (let i = 0; i < 600 && (await page.value('document.body.dataset.ready')) !== 'yes'; ++i) await wait(100);
  const took = Date.now() - started;
  holds(`${name}: ready`, (await page.value('document.body.dataset.ready')) === 'yes', page.errors);
  holds(`${name}: title`, (await page.value('document.title')) === 'bridge.bullet – linchpin report', await page.value('document.title'));
  const verdict = await page.value(`document.getElementById('verdict').textContent`);
  holds(`${name}: verdict`, /^In double precision exact keeps every joint closed to \d\.\de-1\d m; the best of the native ones, bullet:si, leaves/.test(verdict), verdict);
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
  const at = () => page.value('Number(document.body.dataset.time)');
  await page.value(seek(0));
  await page.key('ArrowRight');
  holds(`${name}: an arrow key steps a frame`, Math.abs((await at()) - 4 / 240) < 1e-6, await at());
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
writeFileSync(join(pictures, 'throw.toml'), `schema = 1
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
  holds(`${name}: verdict`, verdict.startsWith(bad ? `${bad} of ${cases} cases failed` : `All ${cases} cases came to their end.`), verdict);
  if (!bad) holds(`${name}: says how far it is from the known answer`, /ball\.y( \[m\])? is (off )?the known answer/.test(verdict), verdict);
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

for (const webgl of [true, false]) {
  const browser = new Browser(program, webgl ? ['--use-angle=swiftshader', '--enable-unsafe-swiftshader'] : ['--disable-3d-apis']);
  try {
    const without = webgl ? '' : '-without-webgl';
    await check(browser, 'desktop' + without, { width: 1360, height: 900 }, webgl);
    await check(browser, 'phone' + without, { width: 390, height: 844, mobile: true }, webgl);
    if (!webgl) {
      await sweep(browser, 'sweep-curve', { width: 1100, height: 900 }, ['v=1:5:9'], 9, 0);
      await sweep(browser, 'sweep-map', { width: 1100, height: 900, dark: true }, ['v=1:5:9', 'g=1.81:17.81:9'], 81, 0);
      await sweep(browser, 'sweep-phone', { width: 390, height: 844, mobile: true }, ['v=3', 'm=0:2:5'], 5, 1);
    }
    if (webgl) await check(browser, 'dark', { width: 1360, height: 900, dark: true }, webgl);
  } finally {
    await browser.close();
  }
}
console.log(failed ? `${failed} failed` : `all as it should be; pictures in ${resolve(pictures)}`);
process.exit(failed ? 1 : 0);
