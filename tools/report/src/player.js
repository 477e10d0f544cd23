// The clock of a page with its buttons and keys: playback, steps, and the time that is chosen.
import { $ } from './dom.js';

export class Player {
  // show(time) draws the page; home() resets the view; pace: seconds of the motion in one second.
  constructor({ begin = 0, end = 0, step = 0, pace = 1, loop = false, show, home = () => {} }) {
    Object.assign(this, { begin, end, step, pace, loop, drawn: show, time: begin, playing: false, last: 0 });
    $('play').onclick = () => this.play(!this.playing);
    $('scrub').oninput = () => { this.play(false); this.seek(this.begin + $('scrub').value * (this.end - this.begin)); };
    document.addEventListener('keydown', (e) => {
      if (e.ctrlKey || e.altKey || e.metaKey || /^(SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
      if (e.target.tagName === 'BUTTON' && e.key === ' ') return;
      const by = this.step * (e.shiftKey ? 10 : 1), speeds = [...$('speed').options];
      const keys = {
        ' ': () => this.play(!this.playing), ArrowLeft: () => { this.play(false); this.seek(this.time - by); }, ArrowRight: () => { this.play(false); this.seek(this.time + by); },
        ArrowUp: () => { $('speed').selectedIndex = Math.min($('speed').selectedIndex + 1, speeds.length - 1); },
        ArrowDown: () => { $('speed').selectedIndex = Math.max($('speed').selectedIndex - 1, 0); },
        Home: () => this.seek(this.begin), End: () => this.seek(this.end), 0: home,
      };
      if (!keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    });
  }
  show() {
    const { begin, end, time } = this, digits = end > 0 && end < 0.1 && this.loop ? 3 - Math.floor(Math.log10(end)) : end < 1 ? 3 : 2;
    $('scrub').value = String(end > begin ? (time - begin) / (end - begin) : 0);
    $('clock').textContent = `${time.toFixed(digits)} s`;
    this.drawn(time);
    document.body.dataset.time = String(time);
  }
  seek(t) { this.time = Math.min(Math.max(t, this.begin), this.end); this.show(); }
  tick(now) {
    if (!this.playing) return;
    this.time += Math.min(Math.max(now - this.last, 0) / 1000, 0.1) * Number($('speed').value) * this.pace;
    this.last = now;
    if (this.time >= this.end && this.loop) this.time = this.begin + ((this.time - this.begin) % (this.end - this.begin));
    else if (this.time >= this.end) { this.time = this.end; this.play(false); }
    this.show();
    if (this.playing) requestAnimationFrame((t) => this.tick(t));
  }
  play(on) {
    const was = this.playing;
    this.playing = on && this.end > this.begin;
    $('play').textContent = this.playing ? '❚❚' : '▶';
    $('play').setAttribute('aria-label', this.playing ? 'Pause' : 'Play');
    if (!this.playing || was) return;
    if (this.time >= this.end) this.time = this.begin;
    this.last = performance.now();
    requestAnimationFrame((t) => this.tick(t));
  }
}
