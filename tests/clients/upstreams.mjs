// The official servers as upstreams, over each way to reach them, called by the official SDKs through a real daemon.
// Run by `make check-upstreams`, which installs the pinned packages as check-clients does.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { clients, transports } from './clients.mjs';
import { check, counts, crib, key, rows, start, stop, store, until } from './crib.mjs';

const packages = fileURLToPath(new URL('node_modules', import.meta.url));
const everything = join(packages, '@modelcontextprotocol/server-everything/dist/index.js');
const filesystem = join(packages, '@modelcontextprotocol/server-filesystem/dist/index.js');
const files = join(store, '..', 'files');
const servers = [];

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise(resolve => server.close(resolve));
  return port;
}

// server-everything by HTTP; its URL once it listens.
async function listening(transport, path) {
  const port = await freePort();
  const child = spawn(process.execPath, [everything, transport], { env: { ...process.env, PORT: port }, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', data => { said += data; });
  servers.push(child);
  await until(`server-everything by ${transport}`, () => said.includes(String(port)));
  return `http://127.0.0.1:${port}${path}`;
}

async function connect(row, secret, origin) {
  const client = row.kit.make();
  const at = { client, asked: [], answer: undefined, call: (params, options) => row.kit.call(client, params, options) };
  row.kit.onElicit(client, request => {
    at.asked.push(request.params);
    return at.answer;
  });
  await client.connect(transports.HTTP(row.kit, secret, origin));
  return at;
}

const text = result => result.content.map(block => block.text ?? '').join('\n');

// What every way to server-everything can do.  name: of the upstream.
const steps = {
  async list({ client }, name) {
    const tools = (await client.listTools()).tools.map(tool => tool.name);
    for (const one of ['echo', 'get-sum', 'get-structured-content', 'trigger-elicitation-request'])
      assert.ok(tools.includes(`${name}_${one}`), one);
  },

  async 'call, audited with the digest of its version'({ call }, name) {
    assert.equal(text(await call({ name: `${name}_echo`, arguments: { message: 'hello' } })), 'Echo: hello');
    const [newest] = await rows('audit', 'calls', '--tenant', 'acme', '--tool', `${name}_echo`, '--limit', '1');
    assert.equal(newest.outcome, 'ok');
    const [tool] = await rows('tool', 'show', `${name}_echo`);
    const records = await rows('audit', 'show', newest.call);
    assert.ok(JSON.stringify(records).includes(tool.digest), JSON.stringify(records));
  },

  async 'structured content, image'({ call }, name) {
    const weather = await call({ name: `${name}_get-structured-content`, arguments: { location: 'Chicago' } });
    assert.ok(typeof weather.structuredContent.temperature === 'number', JSON.stringify(weather));
    const image = await call({ name: `${name}_get-tiny-image`, arguments: {} });
    assert.ok(image.content.some(block => block.type === 'image' && block.data.length > 100));
  },

  async progress({ call }, name) {
    const progress = [];
    await call({ name: `${name}_trigger-long-running-operation`, arguments: { duration: 1, steps: 3 } },
      { onprogress: one => progress.push(one.progress) });
    assert.ok(progress.length > 0 && progress.every((n, i) => i === 0 || n > progress[i - 1]), JSON.stringify(progress));
  },

  async elicitation(at, name) {
    at.asked = [];
    at.answer = { action: 'accept', content: { name: 'Ada', check: true } };
    const done = await at.call({ name: `${name}_trigger-elicitation-request`, arguments: {} });
    assert.equal(at.asked.length, 1);
    assert.match(text(done), /Ada/);
    at.answer = { action: 'decline' };
    assert.match(text(await at.call({ name: `${name}_trigger-elicitation-request`, arguments: {} })), /declined/);
  },
};

// The rest of what server-everything has, under names and URIs of ours.
const hosted = {
  async prompts({ client }, name) {
    const { prompts } = await client.listPrompts();
    assert.ok(prompts.some(prompt => prompt.name === `${name}_args-prompt` && prompt.arguments.length === 2), JSON.stringify(prompts));
    const got = await client.getPrompt({ name: `${name}_args-prompt`, arguments: { city: 'Oslo' } });
    assert.match(got.messages[0].content.text, /Oslo/);
    await assert.rejects(client.getPrompt({ name: `${name}_args-prompt`, arguments: {} }), /Invalid params/);
  },

  async resources({ client }, name) {
    const { resources } = await client.listResources();
    const one = resources.find(resource => resource.uri === `${name}+demo://resource/static/document/features.md`);
    assert.equal(one.mimeType, 'text/markdown');
    const { contents: [page] } = await client.readResource({ uri: one.uri });
    assert.ok(page.uri === one.uri && page.text.length > 100, JSON.stringify(page).slice(0, 300));
    const { resourceTemplates } = await client.listResourceTemplates();
    assert.ok(resourceTemplates.some(row => row.uriTemplate === `${name}+demo://resource/dynamic/text/{resourceId}`));
    const { contents: [made] } = await client.readResource({ uri: `${name}+demo://resource/dynamic/text/7` });
    assert.match(made.text, /^Resource 7/);
    await assert.rejects(client.readResource({ uri: `${name}+demo://nothing/7` }), /not found/i);
  },

  async completion({ client }, name) {
    const ask = (argument, settled) => client.complete({ ref: { type: 'ref/prompt', name: `${name}_completable-prompt` }, argument,
      context: { arguments: settled } });
    assert.deepEqual((await ask({ name: 'department', value: 'E' }, {})).completion.values, ['Engineering']);
    assert.ok((await ask({ name: 'name', value: '' }, { department: 'Engineering' })).completion.values.includes('Alice'));
  },
};

async function checkFiles({ call }) {
  const read = await call({ name: 'files_read_text_file', arguments: { path: join(files, 'a.txt') } });
  assert.match(text(read), /hello/);
  assert.ok((await call({ name: 'files_read_text_file', arguments: { path: '/etc/passwd' } })).isError);
  await call({ name: 'files_write_file', arguments: { path: join(files, 'b.txt'), content: 'written' } });
  assert.match(text(await call({ name: 'files_read_text_file', arguments: { path: join(files, 'b.txt') } })), /written/);
}

try {
  await crib('init');
  mkdirSync(files);
  writeFileSync(join(files, 'a.txt'), 'hello\n');
  await crib('tenant', 'add', 'acme');
  for (const glob of ['*', 'prompt:*', 'resource:*']) await crib('grant', 'add', 'acme', glob);
  const secret = await key('acme/agent');
  await crib('upstream', 'add', 'files', '--read', packages, '--write', files, '--command', 'node', filesystem, files);
  await crib('upstream', 'add', 'pipe', '--asks', 'yes', '--read', packages, '--command', 'node', everything, 'stdio');
  const remote = ['--allow-private', 'yes', '--asks', 'yes'];
  await crib('upstream', 'add', 'http', '--url', await listening('streamableHttp', '/mcp'), ...remote);
  await crib('upstream', 'add', 'sse', '--url', await listening('sse', '/sse'), '--transport', 'sse', ...remote);
  const origin = `http://${await start()}`;
  for (const name of ['files', 'pipe', 'http', 'sse'])
    await check(`sync ${name}`, async () => {
      const said = await rows('upstream', 'sync', name);
      assert.ok(said.length > 10 && said.every(row => row.said === 'stored'), JSON.stringify(said));
    });
  for (const row of clients) {
    const at = await connect(row, secret, origin);
    await check(`${row.name}: server-filesystem`, () => checkFiles(at));
    for (const name of ['pipe', 'http', 'sse'])
      for (const [title, step] of Object.entries({ ...steps, ...hosted }))
        await check(`${row.name}: server-everything by ${name}: ${title}`, () => step(at, name));
    await at.client.close();
  }
} finally {
  for (const child of servers) child.kill();
  stop();
}
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
