// One page for all: a recording of motions, the table of a sweep, a fit, or modes.
import { damage, recording } from './data.js';

// Whatever the page holds, it says what is the matter with it: never a page of empty boxes.
function sorry(error) {
  const $ = (id) => document.getElementById(id);
  const line = document.createElement('p');
  line.textContent = `This page cannot be drawn. Its data are damaged, or come from another version of linchpin (${error.message}). Make the page again.`;
  $('verdict').prepend(line);
  $('verdict').className = 'bad';
  for (const id of ['look', 'swept', 'rows', 'fitted', 'residuals', 'recorded']) $(id).hidden = true;
  if (!$('table').rows.length) $('solvers').hidden = true;
  if (!$('made').children.length) $('provenance').hidden = true;
  document.body.dataset.ready = 'yes';
}

if (damage) sorry(damage);
else (recording.kind === 'linchpin sweep' ? import('./sweep.js') : recording.kind === 'linchpin fit' ? import('./fit.js') : recording.kind === 'linchpin modes' ? import('./modes.js') : import('./report.js')).catch(sorry);
