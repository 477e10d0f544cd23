// The template that is checked in is what its sources make, to the byte.
//   node template_test.mjs BIN_DIR SOURCE_DIR
// Exit code 77, with a message, where its packages cannot be had.
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const from = resolve(process.argv[3], 'tools', 'report');
const folder = mkdtempSync(join(tmpdir(), 'linchpin-template-'));
let code = 1;
try {
  for (const name of ['package.json', 'package-lock.json', 'build.mjs']) copyFileSync(join(from, name), join(folder, name));
  cpSync(join(from, 'src'), join(folder, 'src'), { recursive: true });
  const lock = readFileSync(join(from, 'package-lock.json'), 'utf8');
  if (/"resolved"|:\/\//.test(lock)) throw new Error('package-lock.json says where packages were taken from: npm install --omit-lockfile-registry-resolved');
  const versions = JSON.parse(lock).packages;
  // Those that lie there already will do, if they are the ones.
  const there = ['three', 'uplot', 'esbuild'].every((name) => {
    const file = join(from, 'node_modules', name, 'package.json');
    return existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).version === versions[`node_modules/${name}`].version;
  });
  if (there) {
    symlinkSync(join(from, 'node_modules'), join(folder, 'node_modules'));
  } else {
    const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts', '--fetch-retries=1', '--fetch-timeout=20000'], { cwd: folder, encoding: 'utf8', timeout: 120000 });
    if (npm.status !== 0) {
      console.log('skipped: npm is not there, or does not get the packages' + (npm.stderr ? `\n${npm.stderr.slice(-600)}` : ''));
      code = 77;
    }
  }
  if (code !== 77) {
    const built = spawnSync(process.execPath, ['build.mjs', 'made.html'], { cwd: folder, encoding: 'utf8' });
    if (built.status !== 0) throw new Error(built.stderr);
    const same = readFileSync(join(folder, 'made.html')).equals(readFileSync(join(from, 'template.html')));
    console.log(same ? 'template.html is what its sources make' : 'template.html is not what its sources make: scripts/report-template');
    code = same ? 0 : 1;
  }
} catch (error) {
  console.log(`FAILED: ${error.message}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(code);
