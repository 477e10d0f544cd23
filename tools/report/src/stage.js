// The 3D view in its card: its colours, the words in its corner, and what stands there where it cannot be.
import { $ } from './dom.js';
import { plain, prefixed } from './number.js';

export const dark = matchMedia('(prefers-color-scheme: dark)'), paper = matchMedia('print');
export const stage = () => (dark.matches && !paper.matches ? { still: 0x8792a2, edge: 0x0b0e12, rod: 0xaab4c2, grid: 0x5a6676 } : { still: 0x9aa3af, edge: 0x10243a, rod: 0x4a5566, grid: 0xb0b8c4 });
export function no3d(why) {
  $('nogl').hidden = false;
  $('nogl').textContent = why;
  $('canvas').hidden = true;
  $('view').classList.add('flat');
  for (const id of ['solid', 'overlay', 'arrows', 'paths']) $(id).parentElement.hidden = true;
  $('home').hidden = true;
  $('hint3d').hidden = true;
  document.body.dataset.webgl = 'no';
}
const metres = (x) => (x >= 0.01 && x < 1000 ? `${plain(x, 2)} m` : prefixed(x, 'm'));
export function scale(view) {
  $('scale').textContent = (view.newtons > 0 && $('arrows').checked ? `an arrow of ${metres(view.arrow)} is ${prefixed(view.newtons, 'N')} · ` : '') + `grid ${metres(view.cell)}${view.origin ? ' · grey: the world’s origin' : ''}`;
}
