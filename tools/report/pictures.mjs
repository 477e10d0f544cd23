// Pictures for the documents, each a part of a report.
//   node pictures.mjs BIN_DIR SOURCE_DIR [NAME…]
// Writes docs/pictures/NAME.png, NAME.gif and docs/pictures/scenes.sha256, by which a test sees that a scene was changed since.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Browser, find } from './chromium.mjs';

// What is to be seen: words of the command, the part of the page, the time [s] as a part of the run, the choices.
const pictures = [
  { name: 'bridge', scene: 'bridge.bullet', words: ['compare', '--with', 'exact,bullet:si'], part: '#view', at: 0.75 },
  { name: 'bridge-gap', scene: 'bridge.bullet', words: ['compare', '--with', 'exact,bullet:si,bullet:si:200'], part: ['#legend', '#gap'] },
  { name: 'four-bar', scene: 'four-bar.toml', words: ['run'], part: '#view', at: 0.3 },
  { name: 'steady-top', scene: 'steady-top.toml', words: ['run'], part: '#view', at: 0.4 },
  { name: 'winch', scene: 'winch.toml', words: ['run'], part: '#view', at: 0.5 },
  { name: 'bead-on-ring', scene: 'bead-on-ring.toml', words: ['run'], part: ['#force-title', '#force'], at: 0 },
  { name: 'rotating-hoop', scene: 'rotating-hoop.toml', words: ['sweep', '--set', 'w=1:12:45', '--equilibrium', '--out', 'x.csv', '--column', 'atan2(hypot(bead.x, bead.z), -bead.y)*180/pi', '--column', 'atan2(sqrt(((R*w^2)^2 - 9.81^2 + abs((R*w^2)^2 - 9.81^2))/2), 9.81)*180/pi'], part: ['#swept-legend', '#sweep-plot'] },
  { name: 'rough-circle', scene: 'rough-circle.toml', words: ['sweep', '--set', 'mu=0:0.7:15', '--set', 'g=2:20:10', '--until', 'bead.x', '--duration', '3', '--out', 'x.csv', '--column', 'norm(bead.velocity)', '--column', 'sqrt(2*g*R*(1 - 2*mu^2 - 3*mu*exp(-pi*mu))/(1 + 4*mu^2))'], part: ['#swept-legend', '#sweep-note', '#sweep-plot'] },
];

// Animated pictures of the programs of demos/programs: the same motion with both solvers, side by side. ImageMagick
// makes them from single pictures.
const animations = [
  { name: 'wrecking-ball', program: 'wrecking-ball', seconds: 4, frames: 60, colours: 48, zoom: 4, labels: { native: "Bullet’s solver", exact: 'linchpin' } },
];

const [, , bin, source, ...names] = process.argv, program = find();
if (!program) {
  console.error('scripts/pictures: there is no Chromium. Run scripts/setup --pictures');
  process.exit(1);
}
const out = resolve(source, 'docs', 'pictures'), scenes = resolve(source, 'demos', 'scenes');
const folder = mkdtempSync(join(tmpdir(), 'linchpin-pictures-'));
mkdirSync(out, { recursive: true });
const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });

const say = (page, id, value, event) => page.value(`(() => { const e = document.getElementById('${id}'); e.value = ${JSON.stringify(String(value))}; e.dispatchEvent(new Event('${event}')); })()`);
const drawn = (page) => page.value('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
const box_of = (page, parts) => page.value(`(() => {
  const all = ${JSON.stringify(parts)}.map((p) => document.querySelector(p).getBoundingClientRect()).filter((r) => r.height > 0);
  const x = Math.min(...all.map((r) => r.left)), y = Math.min(...all.map((r) => r.top));
  return { x: x + scrollX, y: y + scrollY, width: Math.max(...all.map((r) => r.right)) - x, height: Math.max(...all.map((r) => r.bottom)) - y };
})()`);
const shot = async (page, box, scale) => Buffer.from((await page.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true, clip: { ...box, scale } })).data, 'base64');
// One colour behind, in place of one that changes down the picture, is half of the file.
const plain = (page) => page.value(`(() => { const v = document.getElementById('view'); v.style.background = '#fff'; v.style.border = '0'; v.style.borderRadius = '0'; })()`);
const open = async (html) => {
  const page = await browser.page({ width: 600, height: 1000 });
  await page.open(pathToFileURL(html).href);
  for (let i = 0; i < 300 && (await page.value('document.body.dataset.ready')) !== 'yes'; ++i) await wait(100);
  return page;
};
const call = (command, words, allowed = [0]) => {
  const run = spawnSync(command, words, { cwd: folder, encoding: 'utf8' });
  if (run.error || !allowed.includes(run.status)) throw new Error(`${command}: ${run.error ?? run.stderr}`);
};

const browser = new Browser(program, ['--use-angle=swiftshader', '--enable-unsafe-swiftshader']);
try {
  for (const { name, scene, words: [verb, ...more], part, at = 0.5, choose = {} } of pictures) {
    if (names.length && !names.includes(name)) continue;
    const html = join(folder, `${name}.html`);
    call(join(resolve(bin), 'linchpin'), [verb, join(scenes, scene), '--report', html, ...more], [0, 4]);  // 4: a case failed, which a picture may show
    rmSync(join(folder, 'x.csv'), { force: true });
    const page = await open(html);
    for (const [id, value] of Object.entries(choose)) {
      await page.value(`(() => { const e = document.getElementById('${id}'); if (e.type === 'checkbox') e.checked = ${value === true}; else e.value = ${value === 'last' ? 'e.options[e.options.length - 1].value' : JSON.stringify(String(value))}; e.dispatchEvent(new Event('change')); })()`);
    }
    if (verb !== 'sweep') await say(page, 'scrub', at, 'input');
    await drawn(page);
    await plain(page);
    const box = await box_of(page, [part].flat());
    const bytes = await shot(page, box, part === '#view' ? 0.8 : 1);
    if (page.errors.length) throw new Error(`${name}: ${page.errors.join('; ')}`);
    writeFileSync(join(out, `${name}.png`), bytes);
    console.log(`docs/pictures/${name}.png: ${Math.round(box.width)} by ${Math.round(box.height)}, ${Math.ceil(bytes.length / 1000)} kB`);
  }
  for (const { name, program: demo, seconds, frames, colours, zoom, labels } of animations) {
    if (names.length && !names.includes(name)) continue;
    call(join(resolve(bin), 'demos'), ['--seconds', String(seconds), '--record', folder, demo]);
    const html = join(folder, `${name}.html`);
    call(join(resolve(bin), 'linchpin'), ['report', `${demo}-exact.rec`, `${demo}-native.rec`, '--out', html]);
    const page = await open(html);
    await plain(page);
    await say(page, 'overlay', '', 'change');
    const runs = await page.value(`[...document.getElementById('solid').options].map((o) => o.value)`);  // exact, native
    await page.value(`(() => { const e = document.getElementById('arrows'); e.checked = false; e.dispatchEvent(new Event('change')); })()`);
    for (let i = 0; i < zoom; ++i) await page.value(`document.getElementById('canvas').dispatchEvent(new WheelEvent('wheel', { deltaY: -100, cancelable: true }))`);
    const box = await box_of(page, ['#canvas']);
    for (let i = 0; i < frames; ++i) {
      const sides = [];
      for (const [run, side] of [[runs[1], 'native'], [runs[0], 'exact']]) {
        await say(page, 'solid', run, 'change');
        await say(page, 'scrub', i / (frames - 1), 'input');
        await drawn(page);
        sides.push(join(folder, `${side}.png`));
        writeFileSync(sides.at(-1), await shot(page, box, 0.68));
        call('convert', [sides.at(-1), '-gravity', 'North', '-pointsize', '18', '-annotate', '+0+6', labels[side], sides.at(-1)]);
      }
      call('convert', [...sides, '+append', '+repage', join(folder, `frame-${String(i).padStart(3, '0')}.png`)]);
    }
    if (page.errors.length) throw new Error(`${name}: ${page.errors.join('; ')}`);
    const file = join(out, `${name}.gif`), all = Array.from({ length: frames }, (_, i) => join(folder, `frame-${String(i).padStart(3, '0')}.png`));
    call('convert', ['-delay', String(Math.round(100 * seconds / frames)), '-loop', '0', ...all, '-dither', 'None', '-colors', String(colours), '-layers', 'OptimizeTransparency', file]);
    console.log(`docs/pictures/${name}.gif: ${frames} frames, ${Math.ceil(statSync(file).size / 1000)} kB`);
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
if (!names.length) {
  const used = [...new Set(pictures.map((p) => p.scene))].sort();
  writeFileSync(join(out, 'scenes.sha256'), used.map((scene) => `${createHash('sha256').update(readFileSync(join(scenes, scene))).digest('hex')}  demos/scenes/${scene}\n`).join(''));
}
