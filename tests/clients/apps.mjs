// Apps of the ext-apps project behind toolcrib: two servers whose page has the same ui:// URI, one tenant, and a host page
// with the project's own AppBridge in a headless Chromium.  Each page renders, is its own, and calls its server.  A picture
// of both is left in apps.png.  Run by `make check-apps`; 77 when there is no Chromium (apt-get install chromium).
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { check, counts, crib, folder, key, rows, start, stop, until } from './crib.mjs';

const here = fileURLToPath(new URL('.', import.meta.url)), packages = join(here, 'node_modules');
const picture = join(here, 'apps.png');
const program = ['chromium', 'chromium-browser', 'google-chrome'].find(name => spawnSync(name, ['--version']).status === 0);
if (!program) {
  console.log('check-apps: skipped, needs Chromium: apt-get install chromium');
  process.exit(77);
}

// What a host has: a client, and for each tool with a page a frame and a bridge.  Its texts are read by the test below.
const host = `
import { AppBridge, PostMessageTransport, getToolUiResourceUri } from '@modelcontextprotocol/ext-apps/app-bridge';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
const MIME = 'text/html;profile=mcp-app', info = { name: 'host', version: '1' };
async function show(client, name) {
  const tool = (await client.listTools()).tools.find(one => one.name === name);
  const uri = getToolUiResourceUri(tool), { contents: [page] } = await client.readResource({ uri });
  if (page.mimeType !== MIME || page.uri !== uri) throw new Error(JSON.stringify(page));
  const frame = document.body.appendChild(document.createElement('iframe'));
  frame.id = name;
  frame.sandbox = 'allow-scripts';
  const bridge = new AppBridge(client, info, { openLinks: {}, serverTools: {}, serverResources: {}, logging: {} });
  const begun = new Promise(resolve => { bridge.oninitialized = resolve; });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = page.text;
  await begun;
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(await client.callTool({ name, arguments: {} }));
  return uri;
}
window.run = async names => {
  const client = new Client(info, { capabilities: { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: [MIME] } } },
    versionNegotiation: { mode: 'auto' } });
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', location.href)));
  const uris = [];
  for (const name of names) uris.push(await show(client, name));
  return JSON.stringify(uris);
};
`;

// The host's own server: its page, and its way to toolcrib, with the key that no page sees.
async function serveHost(origin, secret) {
  const { outputFiles: [script] } = await build({ stdin: { contents: host, resolveDir: here }, bundle: true, format: 'esm',
    platform: 'browser', write: false, logLevel: 'error' });
  const server = createServer(async (req, res) => {
    if (req.url === '/mcp') {
      const body = [];
      for await (const part of req) body.push(part);
      const headers = Object.fromEntries(Object.entries(req.headers).filter(([name]) =>
        /^(accept|content-type|mcp-.*|last-event-id)$/.test(name)));
      const got = await fetch(`${origin}/mcp`, { method: req.method, body: body.length ? Buffer.concat(body) : undefined,
        headers: { ...headers, authorization: `Bearer ${secret}` } }).catch(() => null);
      res.writeHead(got ? got.status : 502, Object.fromEntries([...(got?.headers ?? [])].filter(([name]) =>
        /^(content-type|mcp-.*)$/.test(name))));
      for await (const part of got?.body ?? []) res.write(part);
      res.end();
    } else if (req.url === '/host.js') {
      res.writeHead(200, { 'content-type': 'text/javascript' }).end(script.contents);
    } else {
      res.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><meta charset=utf-8><style>iframe ' +
        '{ width: 420px; height: 420px; border: 1px solid }</style><body><script type=module src=/host.js></script>');
    }
  }).listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  return server;
}

// A browser over the pipe of its debugging protocol.
class Browser {
  constructor() {
    const profile = join(folder, 'chromium');
    mkdirSync(profile);
    this.child = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
      '--disable-features=IsolateSandboxedIframes', '--remote-debugging-pipe', `--user-data-dir=${profile}`,
      '--window-size=900,500', 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.waiting = new Map();
    this.contexts = new Map();
    this.said = [];
    let id = 0, rest = Buffer.alloc(0);
    this.ask = (method, params = {}, sessionId = this.session) => new Promise((resolve, reject) => {
      this.waiting.set(++id, { resolve, reject });
      this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
    this.child.stdio[4].on('data', data => {
      rest = Buffer.concat([rest, data]);
      for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1))
        this.hear(JSON.parse(rest.subarray(0, end)));
    });
  }

  hear({ id, result, error, method, params }) {
    const ask = this.waiting.get(id);
    this.waiting.delete(id);
    if (ask) error ? ask.reject(new Error(error.message)) : ask.resolve(result);
    if (method === 'Runtime.executionContextCreated') this.contexts.set(params.context.id, params.context.auxData.frameId);
    if (method === 'Runtime.executionContextDestroyed') this.contexts.delete(params.executionContextId);
    if (method === 'Runtime.exceptionThrown') this.said.push(params.exceptionDetails.exception?.description ?? '');
    if (method === 'Runtime.consoleAPICalled') this.said.push(params.args.map(one => one.value ?? one.description).join(' '));
  }

  async open(url) {
    const { targetInfos } = await this.ask('Target.getTargets');
    const { targetId } = targetInfos.find(one => one.type === 'page');
    this.session = (await this.ask('Target.attachToTarget', { targetId, flatten: true })).sessionId;
    await this.ask('Page.enable');
    await this.ask('Runtime.enable');
    await this.ask('Page.navigate', { url });
    await until('the host page', () => this.value('typeof window.run').then(type => type === 'function', () => false));
  }

  async value(expression, contextId) {
    const { result, exceptionDetails } = await this.ask('Runtime.evaluate', { expression, contextId, awaitPromise: true,
      returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  // Within the frame of this name.
  async inside(name, expression) {
    const { root } = await this.ask('DOM.getDocument', { depth: -1 });
    const { nodeId } = await this.ask('DOM.querySelector', { nodeId: root.nodeId, selector: `iframe[id="${name}"]` });
    const { node } = await this.ask('DOM.describeNode', { nodeId });
    const context = [...this.contexts].filter(([, frame]) => frame === node.frameId).at(-1);
    return context && this.value(expression, context[0]);
  }
}

const apps = [['a', 'vanillajs'], ['b', 'react']];
const tools = apps.map(([name]) => `${name}_get-time`);
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/;
const shown = 'document.querySelector("code")?.textContent ?? ""';
const click = '[...document.querySelectorAll("button")].find(one => /Get Server Time/.test(one.textContent)).click()';
let browser, server;

try {
  await crib('init');
  await crib('tenant', 'add', 'acme');
  const secret = await key('acme/host');
  for (const [name, which] of apps)
    await crib('upstream', 'add', name, '--read', packages, '--command', 'node',
      join(packages, `@modelcontextprotocol/server-basic-${which}/dist/index.js`), '--stdio');
  const origin = `http://${await start()}`;
  for (const [name] of apps) {
    await crib('upstream', 'sync', name);
    await crib('grant', 'add', 'acme', `${name}_*`, '--with-ui');
  }
  server = await serveHost(origin, secret);
  browser = new Browser();
  await browser.open(`http://127.0.0.1:${server.address().port}/`);

  await check('both pages are read, each by its own URI', async () => {
    assert.deepEqual(JSON.parse(await browser.value(`window.run(${JSON.stringify(tools)})`)),
      apps.map(([name]) => `ui://${name}/get-time/mcp-app.html`));
  });
  for (const [i, [name, which]] of apps.entries())
    await check(`${which}: it renders, and shows what its tool said`, async () => {
      await until(`the time in ${tools[i]}`, async () => TIME.test(await browser.inside(tools[i], shown) ?? ''));
      const react = await browser.inside(tools[i], 'document.querySelector("#root") !== null');
      assert.equal(react, which === 'react', name);
    });
  await check('a picture of both', async () => {
    const { data } = await browser.ask('Page.captureScreenshot', { format: 'png' });
    const png = Buffer.from(data, 'base64');
    writeFileSync(picture, png);
    assert.ok(png.length > 10000 && png.readUInt32BE(16) >= 800, `${png.length} bytes`);
  });
  await check('a call from inside could be for either server, and is refused', async () => {
    await browser.inside(tools[0], click);
    await until('[ERROR] in the page', async () => await browser.inside(tools[0], shown) === '[ERROR]');
    assert.match(JSON.stringify(await rows('audit', 'denied', '--tenant', 'acme')), /ambiguous_app_tool/);
  });
  await check('with one of them granted it is called, by its name there', async () => {
    await crib('--yes', 'grant', 'remove', 'acme', 'b_*');
    await browser.inside(tools[0], click);
    await until('the time in the page', async () => TIME.test(await browser.inside(tools[0], shown)));
    const [newest] = await rows('audit', 'calls', '--tenant', 'acme', '--limit', '1');
    assert.deepEqual([newest.tool, newest.outcome], ['a_get-time', 'ok']);
  });
  if (counts.failed) console.log(browser.said.join('\n'));
} finally {
  browser?.child.kill();
  server?.close();
  server?.closeAllConnections();
  stop();
}
console.log(`${counts.passed} passed, ${counts.failed} failed; ${picture}`);
process.exit(counts.failed ? 1 : 0);
