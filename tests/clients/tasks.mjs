// A slow tool, called by who knows tasks and by who does not: both have its result.  No SDK of npm speaks the extension of
// 2026-07-28, so who knows it is SDK v1's protocol and transport with raw requests.  Run by `make check-clients`.
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Protocol } from '@modelcontextprotocol/sdk/shared/protocol.js';
import { ResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { clients, transports } from './clients.mjs';
import { addTools, check, counts, crib, key, rows, start, stop } from './crib.mjs';

const MODERN = '2026-07-28', TASKS = 'io.modelcontextprotocol/tasks', ELSE = 'A'.repeat(22);

await crib('init');
await addTools('name: slow\ndescription: Takes its time.\ninputSchema: {type: object, properties: {ms: {type: integer}}}\n' +
  'handler: {type: builtin, function: sleep}\ntask: {support: optional, after: 50ms, poll: 100ms}\nlimits: {timeout: 1m}\n');
const keys = {};
for (const tenant of ['acme', 'other']) {
  await crib('tenant', 'add', tenant);
  await crib('grant', 'add', tenant, '*');
  keys[tenant] = await key(`${tenant}/bot`);
}
const address = await start();

// Messages of the newest revision say what they are of by themselves, and once more in headers.
async function knower(secret) {
  const client = new Client({ name: 'check-clients', version: '1' });
  const headers = { Authorization: `Bearer ${secret}`, 'MCP-Protocol-Version': MODERN };
  const transport = new StreamableHTTPClientTransport(new URL(`http://${address}/mcp`), {
    fetch: (url, init) => {
      const { method, params } = init.body ? JSON.parse(init.body) : {};
      const said = new Headers(init.headers);
      for (const [name, value] of Object.entries({ ...headers, 'Mcp-Method': method, 'Mcp-Name': params?.name ?? params?.taskId }))
        if (value) said.set(name, value);
      return fetch(url, { ...init, headers: said });
    } });
  await Protocol.prototype.connect.call(client, transport);     // there is no initialize any more
  const ask = (method, params) => client.request({ method, params: { ...params, _meta: {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': { extensions: { [TASKS]: {} } } } } }, ResultSchema);
  return { client, ask };
}

async function ended(ask, task) {
  for (let left = 100; left > 0; left--) {
    const got = await ask('tasks/get', { taskId: task.taskId });
    if (got.status !== 'working') return got;
    await new Promise(resolve => setTimeout(resolve, task.pollIntervalMs));
  }
  throw new Error(`task ${task.taskId} does not end`);
}

const { client, ask } = await knower(keys.acme);

await check('who knows tasks has one, polls as it is told, and has the result', async () => {
  const task = await ask('tools/call', { name: 'slow', arguments: { ms: 400 } });
  assert.deepEqual([task.resultType, task.status, task.pollIntervalMs], ['task', 'working', 100]);
  const got = await ended(ask, task);
  assert.deepEqual([got.status, got.taskId, got.result.isError ?? false], ['completed', task.taskId, false]);
  assert.equal(got.result.content[0].type, 'text');
  const [listed] = await rows('task', 'list', 'acme');
  assert.deepEqual([listed.task, listed.state, listed.tool], [task.taskId, 'completed', 'slow']);
});

await check('who is quick has the result at once', async () => {
  assert.equal((await ask('tools/call', { name: 'slow', arguments: { ms: 1 } })).resultType, 'complete');
});

await check('a task that is cancelled ends so', async () => {
  const task = await ask('tools/call', { name: 'slow', arguments: { ms: 50000 } });
  await ask('tasks/cancel', { taskId: task.taskId });
  assert.equal((await ended(ask, task)).status, 'cancelled');
});

await check('another tenant is told of it as of none', async () => {
  const task = await ask('tools/call', { name: 'slow', arguments: { ms: 50000 } });
  const other = await knower(keys.other);
  const said = await Promise.all([task.taskId, ELSE].map(taskId =>
    other.ask('tasks/get', { taskId }).then(() => 'found', error => `${error.code} ${error.message}`)));
  assert.match(said[0], /Task not found/);
  assert.equal(said[0], said[1]);
  await other.client.close();
  await ask('tasks/cancel', { taskId: task.taskId });
});

for (const row of clients)
  await check(`${row.name}, which does not know tasks, has the result of its request`, async () => {
    const plain = row.kit.make();
    await plain.connect(transports.HTTP(row.kit, keys.acme, `http://${address}`));
    const before = (await rows('task', 'list', 'acme')).length;
    const result = await row.kit.call(plain, { name: 'slow', arguments: { ms: 400 } });
    assert.deepEqual([result.isError ?? false, result.content[0].type], [false, 'text']);
    assert.equal((await rows('task', 'list', 'acme')).length, before);
    await plain.close();
  });

await client.close();
stop();
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
