// Sources of this folder -> template.html, one file with everything in it. The same sources give the same bytes.
//   node build.mjs [FILE]
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url)), file = process.argv[2] ?? join(here, 'template.html');
const read = (...names) => readFileSync(join(here, ...names), 'utf8');

const bundle = async (entry, loader) => {
  const out = await build({ entryPoints: [join(here, 'src', entry)], absWorkingDir: here, bundle: true, minify: true, format: 'iife', target: 'es2020', charset: 'utf8', legalComments: 'none', write: false, loader });
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
if (page.split('@RECORDING@').length !== 2) throw new Error('the page has to have one place for the recording');
writeFileSync(file, page);
console.log(`${file}: ${page.length} characters`);
