// One page for both: a recording of motions, or the table of a sweep.
import { recording } from './data.js';

if (recording.kind === 'linchpin sweep') import('./sweep.js');
else import('./report.js');
