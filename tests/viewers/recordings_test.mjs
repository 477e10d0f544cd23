// What others make of our recordings: Khronos' validator of glTF, and the MCAP project's own reader.
//   node recordings_test.mjs BIN_DIR SOURCE_DIR
// Exit code 77, with a message, where these cannot be had.
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [, , bin, source] = process.argv;
const from = resolve(source, 'tests', 'viewers'), scenes = resolve(source, 'demos', 'scenes');
const folder = mkdtempSync(join(tmpdir(), 'linchpin-viewers-'));
let failed = 0;
function holds(what, yes, got) {
  if (yes) return;
  ++failed;
  console.log(`FAILED: ${what}${got === undefined ? '' : `: ${JSON.stringify(got)}`}`);
}

// The packages of package-lock.json: those that lie there already, or npm's.
function packages() {
  for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(from, name), join(folder, name));
  const lock = readFileSync(join(from, 'package-lock.json'), 'utf8');
  if (/"resolved"|:\/\//.test(lock)) throw new Error('package-lock.json says where packages were taken from: npm install --omit-lockfile-registry-resolved');
  if (existsSync(join(from, 'node_modules', 'gltf-validator'))) {
    symlinkSync(join(from, 'node_modules'), join(folder, 'node_modules'));
    return true;
  }
  const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts', '--fetch-retries=1', '--fetch-timeout=20000'], { cwd: folder, encoding: 'utf8', timeout: 120000 });
  if (npm.status !== 0) console.log('skipped: npm is not there, or does not get the packages' + (npm.stderr ? `\n${npm.stderr.slice(-600)}` : ''));
  return npm.status === 0;
}

const linchpin = (...args) => execFileSync(join(resolve(bin), 'linchpin'), args, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 28 });
const file = (name) => readFileSync(join(folder, name));

// A table of numbers by the names of its columns.
function table(name) {
  const split = (line) => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map((m) => m[1].replace(/^"|"$/g, '').replace(/""/g, '"'));
  const [head, ...lines] = file(name).toString().trim().split('\n');
  const names = split(head);
  return lines.map((line) => Object.fromEntries(line.split(',').map((x, i) => [names[i], x === '' ? null : Number(x)])));
}

async function gltf(validator, name) {
  const report = await validator.validateBytes(new Uint8Array(file(name)));
  const { numErrors, numWarnings, messages } = report.issues;
  holds(`${name}: no error, no warning`, numErrors === 0 && numWarnings === 0, messages.slice(0, 5));
  return report.info;
}

// Numbers of an accessor, from the file's bytes.
function numbers(json, buffer, index) {
  const a = json.accessors[index], view = json.bufferViews[a.bufferView];
  const width = { SCALAR: 1, VEC3: 3, VEC4: 4 }[a.type];
  return Array.from({ length: a.count }, (_, i) => Array.from({ length: width }, (__, k) => buffer.readFloatLE((view.byteOffset ?? 0) + 4 * (i * width + k))));
}

async function mcap({ McapIndexedReader, McapStreamReader }, name) {
  const bytes = new Uint8Array(file(name));
  const reader = await McapIndexedReader.Initialize({
    readable: { size: async () => BigInt(bytes.length), read: async (offset, size) => bytes.slice(Number(offset), Number(offset + size)) },
  });
  const messages = new Map(), decode = new TextDecoder();
  let last = -1n, count = 0n;
  for await (const m of reader.readMessages({ validateCrcs: true })) {
    const { topic } = reader.channelsById.get(m.channelId);
    if (!messages.has(topic)) messages.set(topic, []);
    messages.get(topic).push({ at: m.logTime, ...JSON.parse(decode.decode(m.data)) });
    if (m.logTime < last) holds(`${name}: in the order of time`, false, m.logTime.toString());
    last = m.logTime;
    ++count;
  }
  holds(`${name}: has chunks and an index`, reader.chunkIndexes.length >= 1 && reader.chunkIndexes.every((c) => c.messageIndexOffsets.size > 0), reader.chunkIndexes.length);
  holds(`${name}: statistics`, reader.statistics.messageCount === count && reader.statistics.channelCount === reader.channelsById.size && reader.statistics.chunkCount === reader.chunkIndexes.length && count > 0n);
  for (const channel of reader.channelsById.values()) {
    const schema = reader.schemasById.get(channel.schemaId);
    holds(`${name}: ${channel.topic} has a schema`, channel.messageEncoding === 'json' && schema?.encoding === 'jsonschema' && JSON.parse(decode.decode(schema.data)).title === schema.name);
  }
  // Read as a stream, without the index, every sum of the file is looked at.
  const stream = new McapStreamReader({ validateCrcs: true });
  stream.append(bytes);
  let streamed = 0n;
  for (let record; (record = stream.nextRecord());) if (record.type === 'Message') ++streamed;
  holds(`${name}: a stream has as many`, stream.done() && streamed === count, [streamed.toString(), count.toString()]);
  return { messages, reader };
}

async function main() {
  const require = createRequire(join(folder, 'package.json'));
  const validator = require('gltf-validator'), readers = require('@mcap/core');

  // A scene of ours, every step a frame.
  linchpin('run', join(scenes, 'winch.toml'), '--duration', '2', '--frames', '1e6', '--gltf', 'winch.gltf', '--mcap', 'winch.mcap', '--csv', 'winch.csv', '--record', 'winch.rec');
  const rows = table('winch.csv'), at = (row, name, parts) => parts.map((part) => row[`${name}.${part}`]);
  const info = await gltf(validator, 'winch.gltf');
  holds('winch.gltf: one animation', info.animationCount === 1, info);
  const json = JSON.parse(file('winch.gltf')), buffer = Buffer.from(json.buffers[0].uri.split(',')[1], 'base64');
  const load = json.nodes.findIndex((n) => n.name === 'load'), animation = json.animations[0];
  const sampler = (path) => animation.samplers[animation.channels.find((c) => c.target.node === load && c.target.path === path).sampler];
  const t = numbers(json, buffer, sampler('translation').input), p = numbers(json, buffer, sampler('translation').output);
  holds('winch.gltf: a frame per row', t.length === rows.length && p.length === rows.length, [t.length, rows.length]);
  const off = rows.map((row, i) => Math.max(Math.abs(row['t [s]'] - t[i][0]), ...at(row, 'load', ['x [m]', 'y [m]', 'z [m]']).map((x, k) => Math.abs(x - p[i][k]))));
  holds('winch.gltf: places are those of the table, in single precision', Math.max(...off) < 2e-7 * 4, Math.max(...off));

  const { messages } = await mcap(readers, 'winch.mcap');
  const transforms = messages.get('/tf');
  holds('winch.mcap: a frame per row', transforms.length === rows.length, transforms.length);
  // Poses and forces to the last bit: both files have every digit.
  rows.forEach((row, i) => {
    const one = transforms[i]?.transforms.find((each) => each.child_frame_id === 'load');
    const got = one && [...['x', 'y', 'z'].map((k) => one.translation[k]), ...['w', 'x', 'y', 'z'].map((k) => one.rotation[k])];
    const want = [...at(row, 'load', ['x [m]', 'y [m]', 'z [m]']), ...at(row, 'load', ['qw', 'qx', 'qy', 'qz'])];
    if (!got || got.some((x, k) => x !== want[k])) holds(`winch.mcap: pose of row ${i}`, false, [got, want]);
    if (one && Math.abs(Number(transforms[i].at) - 1e9 * row['t [s]']) > 0.5) holds(`winch.mcap: time of row ${i}`, false, transforms[i].at.toString());
  });
  const wrenches = messages.get('/wrench/rope'), gaps = messages.get('/gap/rope');
  const columns = ['Fx [N]', 'Fy [N]', 'Fz [N]'], sign = wrenches[0].body === 'load' ? -1 : 1;  // the table's are those on the first body
  holds('winch.mcap: a wrench per row', wrenches.length >= rows.length - 1, wrenches.length);
  wrenches.forEach((wrench, i) => {
    const want = at(rows[i], 'rope', columns), got = ['x', 'y', 'z'].map((k) => wrench.force[k]);
    if (got.some((x, k) => Math.abs(sign * x - want[k]) > 1e-12 * Math.hypot(...want))) holds(`winch.mcap: force of row ${i}`, false, [got, want]);
  });
  gaps.forEach((gap, i) => { if (Math.abs(gap.value - Math.abs(rows[i]['rope.gap [m]'])) > 0) holds(`winch.mcap: gap of row ${i}`, false, [gap.value, rows[i]['rope.gap [m]']]); });
  holds('winch.mcap: bodies to draw', messages.get('/scene')[0].entities.length >= 1);

  // Two solvers, one of which goes wrong: a solid and a ghost, and two sets of topics.
  linchpin('compare', join(scenes, 'bridge.bullet'), '--with', 'exact,bullet:mlcp', '--duration', '0.5', '--gltf', 'bridge.glb', '--mcap', 'bridge.mcap', '--record', 'bridge.rec');
  const both = await gltf(validator, 'bridge.glb');
  holds('bridge.glb: two materials at least', both.materialCount >= 2, both);
  const topics = [...(await mcap(readers, 'bridge.mcap')).messages.keys()];
  for (const topic of ['/exact/tf', '/bullet:mlcp/tf', '/exact/scene']) holds(`bridge.mcap has ${topic}`, topics.includes(topic), topics.slice(0, 6));
  // From a recording, the same animation but for the command.
  linchpin('report', 'bridge.rec', '--gltf', 'again.glb');
  await gltf(validator, 'again.glb');
  holds('again.glb is bridge.glb', file('again.glb').equals(file('bridge.glb')));

  // Every shape, gravity along another axis, coordinates without a place, a run of one frame.
  for (const [scene, ...words] of [['heavy-top'], ['andrews', '--mcap'], ['flyball-governor'], ['ball-on-turntable'], ['four-bar', '--frames', '0.01']]) {
    if (words[0] === '--mcap') {
      linchpin('run', join(scenes, `${scene}.toml`), '--mcap', `${scene}.mcap`);
      const got = await mcap(readers, `${scene}.mcap`);
      holds(`${scene}.mcap: coordinates`, [...got.messages.keys()].some((topic) => topic.startsWith('/coordinate/')), [...got.messages.keys()]);
      continue;
    }
    spawnSync(join(resolve(bin), 'linchpin'), ['run', join(scenes, `${scene}.toml`), '--gltf', `${scene}.gltf`, ...words], { cwd: folder });
    await gltf(validator, `${scene}.gltf`);
  }
}

let code = 0;
try {
  mkdirSync(folder, { recursive: true });
  if (packages()) await main();
  else code = 77;
} catch (error) {
  ++failed;
  console.log(`FAILED: ${error.stack}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (code !== 77) console.log(failed ? `${failed} failed` : 'all as it should be');
process.exit(failed ? 1 : code);
