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
// Labels of ticks, as short as they may be without two that are alike.
export function label(values) {
  const most = Math.max(...values.map(Math.abs)), far = most !== 0 && (most < 1e-3 || most >= 1e5);
  let out = [];
  for (let digits = far ? 2 : 6; digits <= 16; ++digits) {
    out = values.map((v) => (v === 0 ? '0' : far ? v.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('e+', 'e') : plain(v, digits)));
    if (new Set(out).size === out.length) break;
  }
  return out;
}
// The same with what all of them have in common apart, where that is most of the number: 9810 + {-0.002, 0, 0.002}.
export function ticks(values) {
  const text = label(values), low = Math.min(...values), high = Math.max(...values);
  if (!(high > low) || Math.max(...text.map((t) => t.length)) <= 8) return { text, base: '' };
  const unit = 10 ** Math.ceil(Math.log10(high - low)), base = Math.round(low / unit) * unit;
  return base === 0 ? { text, base: '' } : { text: label(values.map((v) => Number((v - base).toPrecision(3)))), base: `${plain(base, 16)} +` };
}
