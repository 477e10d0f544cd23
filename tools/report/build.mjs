// Sources of this folder -> template.html, one file with everything in it. The same sources give the same bytes.
//   node build.mjs [FILE]
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url)), file = process.argv[2] ?? join(here, 'template.html');
const read = (...names) => readFileSync(join(here, ...names), 'utf8');

// Three quarters of a page is three.js. It is taken from its sources, which leave out more of what is not used than its
// one file does; of its shaders come those of the materials of view.js and what these include, without their comments.
const materials = ['meshlambert', 'meshbasic'];  // lines are drawn by the second
const three = join(here, 'node_modules', 'three', 'src'), shaders = join(three, 'renderers', 'shaders');
const text_of = new Map();
for (const folder of ['ShaderChunk', 'ShaderLib'])
  for (const name of readdirSync(join(shaders, folder))) text_of.set(basename(name, '.glsl.js'), readFileSync(join(shaders, folder, name), 'utf8'));
const shading = new Set([...materials, ...[...readFileSync(join(three, 'renderers', 'webgl', 'WebGLProgram.js'), 'utf8').matchAll(/ShaderChunk\[ '(\w+)' \]/g)].map(([, name]) => name)]);
for (const name of shading) for (const [, included] of text_of.get(name).matchAll(/#include <(\w+)>/g)) shading.add(included);
const bare = (glsl) => glsl.replace(/\/\*[\s\S]*?\*\//g, '').replace(/\/\/[^\n]*/g, '').split('\n').map((line) => line.trim()).filter(Boolean).join('\n');
// Headsets, and light of pictures of the surroundings, are part of its renderer; a page has neither.
const absent = {
  'WebXRManager.js': `import { EventDispatcher } from '../../core/EventDispatcher.js';
    export class WebXRManager extends EventDispatcher {
      constructor() { super(); this.enabled = this.isPresenting = this.cameraAutoUpdate = false; }
      setAnimationLoop() {} dispose() {} getSession() { return null; } getEnvironmentBlendMode() { return 'opaque'; }
    }`,
  'WebGLCubeUVMaps.js': 'export function WebGLCubeUVMaps() { return { get: () => null, dispose() {} }; }',
};
const lean = {
  name: 'lean three.js',
  setup(of) {
    of.onResolve({ filter: /^three$/ }, () => ({ path: join(three, 'Three.js'), sideEffects: false }));
    of.onLoad({ filter: /\.glsl\.js$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8'), here = shading.has(basename(path, '.glsl.js'));
      return { contents: text.replace(/`([^`]*)`/g, (_, glsl) => (here ? '`' + bare(glsl) + '`' : "''")), loader: 'js' };
    });
    of.onLoad({ filter: /\/(WebXRManager|WebGLCubeUVMaps)\.js$/ }, ({ path }) => ({ contents: absent[basename(path)], loader: 'js', resolveDir: dirname(path) }));
  },
};

const bundle = async (entry, loader) => {
  const out = await build({ entryPoints: [join(here, 'src', entry)], absWorkingDir: here, bundle: true, minify: true, format: 'iife', target: 'es2020', charset: 'utf8', legalComments: 'none', write: false, loader, plugins: [lean] });
  return out.outputFiles[0].text.trim();
};
// A script element ends at the first "</script", a comment in it begins at "<!--".
const script = (await bundle('main.js')).replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
const style = await bundle('style.css');

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
const parts = {
  // Nothing is loaded, from anywhere; what runs is this script and no other.
  POLICY: `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:; base-uri 'none'; form-action 'none'`,
  LICENCES: ['three', 'uplot'].map((name) => `${name} ${JSON.parse(read('node_modules', name, 'package.json')).version}\n\n${read('node_modules', name, 'LICENSE').trim()}`).join('\n\n').replace(/--/g, '- -'),
  STYLE: style,
  SCRIPT: script,
};
const page = read('src', 'page.html').replace(/@(POLICY|LICENCES|STYLE|SCRIPT)@/g, (_, name) => parts[name]);
for (const [mark, what] of [['@RECORDING@', 'recording'], ['@TITLE@', 'title']])
  if (page.split(mark).length !== 2) throw new Error(`the page has to have one place for the ${what}`);
writeFileSync(file, page);
console.log(`${file}: ${page.length} characters`);
