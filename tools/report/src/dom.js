// Elements of the page.
export const $ = (id) => document.getElementById(id);
export function make(tag, text, more = {}) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  return Object.assign(e, more);
}
// A file of lines of fields, as spreadsheets read it.
const field = (x) => (x === null || x === undefined ? '' : /[",\n]/.test(String(x)) ? `"${String(x).replace(/"/g, '""')}"` : String(x));
export function save(name, lines) {
  const link = make('a');
  link.href = URL.createObjectURL(new Blob([lines.map((l) => l.map(field).join(',')).join('\r\n') + '\r\n'], { type: 'text/csv' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
