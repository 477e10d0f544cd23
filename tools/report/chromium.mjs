// A headless Chromium over its debugging pipe: no package but Node itself.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/// The program, or null where there is none.
export function find() {
  for (const name of [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean)) {
    const out = spawnSync(name, ['--version'], { encoding: 'utf8' });
    if (out.status === 0) return name;
  }
  return null;
}

export class Browser {
  constructor(program, flags = []) {
    this.profile = mkdtempSync(join(tmpdir(), 'linchpin-browser-'));
    this.child = spawn(program, ['--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--hide-scrollbars', '--no-first-run', '--disable-extensions', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', `--user-data-dir=${this.profile}`, '--remote-debugging-pipe', ...flags, 'about:blank'],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.next = 0;
    this.waiting = new Map();
    this.listeners = [];
    let rest = '';
    this.child.stdio[4].setEncoding('utf8');
    this.child.stdio[4].on('data', (text) => {
      const parts = (rest + text).split('\0');
      rest = parts.pop();
      for (const part of parts) this.take(JSON.parse(part));
    });
  }
  take(message) {
    if (message.id === undefined) { for (const listen of this.listeners) listen(message); return; }
    const { resolve, reject } = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error) reject(new Error(message.error.message)); else resolve(message.result);
  }
  send(method, params = {}, sessionId = undefined) {
    const id = ++this.next;
    this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + '\0');
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      setTimeout(() => { if (this.waiting.delete(id)) reject(new Error(`${method} took more than 60 s`)); }, 60000).unref();
    });
  }
  /// A page of this size, with everything it complains about and asks for in `errors` and `requests`.
  async page({ width, height, mobile = false, dark = false }) {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = { errors: [], requests: [], send: (method, params) => this.send(method, params, sessionId) };
    this.listeners.push((m) => {
      if (m.sessionId !== sessionId) return;
      if (m.method === 'Runtime.exceptionThrown') page.errors.push(m.params.exceptionDetails.exception?.description ?? m.params.exceptionDetails.text);
      if (m.method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(m.params.type)) page.errors.push(m.params.args.map((a) => a.value ?? a.description).join(' '));
      if (m.method === 'Log.entryAdded' && m.params.entry.level === 'error') page.errors.push(m.params.entry.text);
      if (m.method === 'Network.requestWillBeSent') page.requests.push(m.params.request.url);
      if (m.method === 'Page.loadEventFired') page.loaded?.();
    });
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(`${domain}.enable`);
    await page.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: mobile ? 2 : 1, mobile });
    await page.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
    page.open = async (url) => {
      const loaded = new Promise((resolve) => { page.loaded = resolve; });
      await page.send('Page.navigate', { url });
      await loaded;
    };
    page.value = async (expression) => {
      const out = await page.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
      if (out.exceptionDetails) throw new Error(out.exceptionDetails.exception?.description ?? out.exceptionDetails.text);
      return out.result.value;
    };
    page.picture = async (whole = true) => {
      let clip;
      if (whole) {
        const { cssContentSize: s } = await page.send('Page.getLayoutMetrics');
        clip = { x: 0, y: 0, width: s.width, height: s.height, scale: 1 };
      }
      const { data } = await page.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: whole, clip });
      return Buffer.from(data, 'base64');
    };
    page.key = async (key) => {
      for (const type of ['keyDown', 'keyUp']) await page.send('Input.dispatchKeyEvent', { type, key, text: type === 'keyDown' && key.length === 1 ? key : undefined });
    };
    return page;
  }
  async close() {
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    await this.send('Browser.close').catch(() => this.child.kill());
    await Promise.race([gone, new Promise((resolve) => { setTimeout(resolve, 5000).unref(); })]);
    this.child.kill('SIGKILL');
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
