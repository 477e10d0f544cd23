// Numbers for people, as `linchpin compare` prints them.
export function brief(x) {
  if (typeof x !== 'number' || !Number.isFinite(x)) return '–';
  if (x === 0) return '0';
  return x.toExponential(1).replace(/e([+-])(\d)$/, 'e$10$2');
}
export function plain(x, digits = 6) {
  if (typeof x !== 'number' || !Number.isFinite(x)) return '–';
  return String(Number(x.toPrecision(digits)));
}
// With the prefix of a unit: 15 GN.
export function prefixed(x, unit, digits = 2) {
  const k = x === 0 ? 0 : Math.floor(Math.log10(Math.abs(Number(x.toPrecision(digits)))) / 3), names = ['n', 'µ', 'm', '', 'k', 'M', 'G', 'T'];
  if (k >= -3 && k <= 4) return `${plain(x / 1000 ** k, digits)} ${names[k + 3]}${unit}`;
  return `${brief(x)} ${unit}`;
}
const raised = { '-': '⁻', 0: '⁰', 1: '¹', 2: '²', 3: '³', 4: '⁴', 5: '⁵', 6: '⁶', 7: '⁷', 8: '⁸', 9: '⁹' };
export const power = (e) => '10' + String(e).split('').map((c) => raised[c]).join('');
