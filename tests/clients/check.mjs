// The official TypeScript SDK, v1 and v2, as clients of a real daemon: over stdio and HTTP each connects with a key, lists,
// calls get_weather and query_database, is told of changes within 200 ms and is not told of another tenant's.
// Run by `make check-clients`, which sets TOOLCRIB_BUILDDIR, TOOLCRIB_SRCDIR and installs the pinned packages.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';

const build = process.env.TOOLCRIB_BUILDDIR ?? '.';
const source = process.env.TOOLCRIB_SRCDIR ?? '.';
const folder = mkdtempSync(join(tmpdir(), 'toolcrib-clients-'));
const store = join(folder, 'store');
const env = { ...process.env, TOOLCRIB_RUN: join(build, 'toolcrib-run') };
const run = promisify(execFile);
const crib = async (...words) => (await run(join(build, 'toolcrib'), ['--store', store, ...words], { env })).stdout;
const LIMIT_MS = 200;
let passed = 0, failed = 0;

async function until(what, condition, ms = 15000) {
  const end = Date.now() + ms;
  for (;;) {
    const got = await condition();
    if (got) return got;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}

async function check(title, body) {
  try {
    await body();
    passed++;
    console.log(`ok ${title}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${title}\n${error.stack ?? error}`);
  }
}

// One row per client: how to make it, how to hear of changes.
const info = { name: 'check-clients', version: '1' };
const clients = {
  'SDK v1': () => ({
    client: new ClientV1(info), Http: HttpV1, Stdio: StdioV1,
    hear: (client, heard) => client.setNotificationHandler(ToolListChangedNotificationSchema, heard),
    call: (client, name, args) => client.callTool({ name, arguments: args }),
  }),
  'SDK v2, legacy': () => ({
    client: new ClientV2(info), Http: HttpV2, Stdio: StdioV2,
    hear: (client, heard) => client.setNotificationHandler('notifications/tools/list_changed', heard),
    call: (client, name, args) => client.callTool({ name, arguments: args }),
  }),
  'SDK v2, 2026-07-28': () => ({
    client: new ClientV2(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } }), Http: HttpV2, Stdio: StdioV2,
    hear: async (client, heard) => {
      client.setNotificationHandler('notifications/tools/list_changed', heard);
      await client.listen({ toolsListChanged: true });
    },
    call: (client, name, args) => client.callTool({ name, arguments: args }),
  }),
};

const transports = {
  HTTP: ({ Http }, key, url) => new Http(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } }),
  stdio: ({ Stdio }, key) => new Stdio({
    command: join(build, 'toolcribd'), args: ['--stdio', '--store', store],
    env: { ...env, TOOLCRIB_KEY: key }, stderr: 'ignore',
  }),
};

const echo = description =>
  `name: told\ndescription: ${description}\ninputSchema: {type: object}\nhandler: {type: builtin, function: echo}\n`;

async function scenario(name, transport, key, url) {
  const kit = clients[name]();
  const { client } = kit;
  await client.connect(transports[transport](kit, key, url));
  try {
    let heard = [];
    await kit.hear(client, () => { heard.push(performance.now()); });
    const names = async () => (await client.listTools()).tools.map(tool => tool.name);
    const { tools } = await client.listTools();
    assert.ok(tools.every(tool => tool.description && tool.inputSchema.type === 'object'));
    assert.deepEqual(tools.map(tool => tool.name), ['get_weather', 'query_database']);
    const weather = await kit.call(client, 'get_weather', { location: 'Oslo' });
    assert.ok(!weather.isError && weather.content.length > 0, JSON.stringify(weather));
    const shop = await kit.call(client, 'query_database', { database: 'products', query: 'SELECT count(*) AS n FROM products' });
    assert.ok(!shop.isError && shop.structuredContent?.rows?.length === 1, JSON.stringify(shop));
    const wrong = await kit.call(client, 'get_weather', {}).catch(error => error);
    assert.match(JSON.stringify(wrong.content ?? wrong.message ?? ''), /location|Invalid params/);

    // A change of this tenant's list is heard within the limit of the command's return.
    const told = async (what, ...words) => {
      heard = [];
      await crib(...words);
      const returned = performance.now();
      await until(`list_changed after ${what}`, () => heard.length > 0, 3000);
      const late = heard[0] - returned;
      assert.ok(late < LIMIT_MS, `${what}: heard ${late.toFixed(1)} ms after the command returned`);
    };
    const file = join(folder, 'told.yaml');
    writeFileSync(file, echo('First words.'));
    await crib('tool', 'add', file);
    await told('grant add', 'grant', 'add', 'acme', 'told');
    assert.ok((await names()).includes('told'));
    writeFileSync(file, echo(`Version of ${performance.now()}.`));
    await told('a new version', 'tool', 'add', file);
    await told('grant remove', 'grant', 'remove', 'acme', 'told', '--yes');
    assert.ok(!(await names()).includes('told'));

    // Another tenant's change is not.  The answers below come behind anything that would have been sent.
    heard = [];
    await crib('grant', 'add', 'other', 'told');
    writeFileSync(file, echo(`Version for another of ${performance.now()}.`));
    await crib('tool', 'add', file);
    await crib('grant', 'remove', 'other', 'told', '--yes');
    await names();
    await names();
    assert.equal(heard.length, 0, 'told of another tenant');
  } finally {
    await client.close();
  }
}

let daemon;
try {
  await crib('init');
  await run(join(source, 'contrib/examples/install'), [join(folder, 'examples')]);
  const examples = ['get_weather', 'query_database'].map(name => join(folder, 'examples', `${name}.yaml`));
  await crib('tool', 'add', ...examples);
  for (const tenant of ['acme', 'other']) {
    await crib('tenant', 'add', tenant);
    await crib('grant', 'add', tenant, 'get_weather', 'query_database');
  }
  const key = (await crib('key', 'create', 'acme/agent')).match(/tck_\w+/)[0];
  const config = join(folder, 'toolcribd.yaml');
  writeFileSync(config, 'listeners:\n- {transport: http, address: "127.0.0.1:0"}\n');
  daemon = spawn(join(build, 'toolcribd'), ['--store', store, '-c', config], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  daemon.stderr.on('data', data => { log += data; });
  const address = await until('a daemon that answers', async () => {
    assert.equal(daemon.exitCode, null, log);
    const status = await crib('--json', 'status').then(JSON.parse, () => null);
    return status?.listeners?.find(listener => listener.transport === 'http')?.address;
  });
  for (const name of Object.keys(clients))
    for (const transport of Object.keys(transports))
      await check(`${name} over ${transport}`, () => scenario(name, transport, key, `http://${address}/mcp`));
} finally {
  daemon?.kill();
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
