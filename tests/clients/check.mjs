// The official TypeScript SDK, v1 and v2, as clients of a real daemon.  Over each transport and in each era that a client
// speaks it lists (one page and three), calls, follows progress, cancels, is asked, and is told of changes.
// Run by `make check-clients`, which sets TOOLCRIB_BUILDDIR, TOOLCRIB_SRCDIR and installs the pinned packages.
import assert from 'node:assert/strict';
import { clients, transports } from './clients.mjs';
import { addDocuments, addExamples, addTools, check, counts, crib, key, rows, runs, start, stop, until } from './crib.mjs';

let latest = 0;                 // ms from a command's return to the notice of its change, at most: a figure, no test
const MANY = 250, PAGE = 100;   // tools of one tenant; of one page
const TOOLS = ['deploy', 'get_weather', 'nap', 'query_database'];
const DEPLOY = { name: 'deploy', arguments: { service: 'shop', version: '1.4.2' } };

const echo = (name, description) =>
  `name: ${name}\ndescription: ${description}\ninputSchema: {type: object}\nhandler: {type: builtin, function: echo}\n`;
const nap = `name: nap
description: Sleeps as long as it is told, in a process of its own.
inputSchema: {type: object, properties: {seconds: {type: string}}, required: [seconds]}
handler: {type: exec, argv: [/usr/bin/sleep, "{/seconds}"]}
`;

const prompt = `kind: prompt
name: review
arguments: [{name: change, required: true}, {name: tone}]
complete: {tone: [friendly, strict]}
handler: {type: static, text: "Review {/change} {/tone}."}
`;
const resources = `kind: resource
name: handbook
uri: docs://handbook
handler: {type: static, text: Be kind.}
---
kind: resourceTemplate
name: order
uriTemplate: shop://orders/{id}
handler: {type: static, text: "order {/id}"}
`;

// One connected client and what it was asked and told.
async function connect(row, transport, secret, origin) {
  const client = row.kit.make();
  const at = { row, client, asked: [], heard: [], answer: undefined };
  at.call = (params, options) => row.kit.call(client, params, options);
  row.kit.onElicit(client, request => {
    at.asked.push(request.params);
    return at.answer;
  });
  row.kit.onChanged(client, () => { at.heard.push(performance.now()); });
  await client.connect(transports[transport](row.kit, secret, origin));
  return at;
}

const steps = {
  async revision({ row, client }) {
    assert.ok([row.revision, undefined].includes(row.kit.revision(client)), row.kit.revision(client));
    assert.equal(client.getServerVersion().name, 'toolcrib');
  },

  async list({ client }) {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map(tool => tool.name), TOOLS);
    assert.ok(tools.every(tool => tool.description && tool.inputSchema.type === 'object'));
  },

  async call({ call }) {
    const weather = await call({ name: 'get_weather', arguments: { location: 'Oslo' } });
    assert.ok(!weather.isError && weather.content.length > 0, JSON.stringify(weather));
    const shop = await call({ name: 'query_database',
      arguments: { database: 'products', query: 'SELECT count(*) AS n FROM products' } });
    assert.ok(!shop.isError && shop.structuredContent?.rows?.length === 1, JSON.stringify(shop));
    const wrong = await call({ name: 'get_weather', arguments: {} });
    assert.ok(wrong.isError, JSON.stringify(wrong));
    assert.match(wrong.content[0].text, /Missing required argument: location/);
    await assert.rejects(call({ name: 'no_such_tool', arguments: {} }), { code: -32602 });
  },

  async 'accepted elicitation with progress'(at) {
    const progress = [];
    at.asked = [];
    at.answer = { action: 'accept', content: { reason: 'It is Tuesday' } };
    const done = await at.call(DEPLOY, { onprogress: one => progress.push(one) });
    assert.equal(at.asked.length, 1);
    assert.match(at.asked[0].message, /Deploy shop 1\.4\.2/);
    assert.deepEqual(at.asked[0].requestedSchema.required, ['reason']);
    assert.deepEqual(done.structuredContent, { service: 'shop', version: '1.4.2', reason: 'It is Tuesday' });
    const told = progress.filter(one => one.total === 5);        // v2 also counts the rounds of a question, without a total
    const steps = told.map(one => one.progress);                // MCP P-02, P-04: rising, and some may be one too many
    assert.equal(steps[0], 0);
    assert.ok(steps[steps.length - 1] >= 4, steps.join(' '));   // the SDK forgets the last one that comes in one piece with the result
    assert.ok(steps.every((step, i) => i === 0 || step > steps[i - 1]), steps.join(' '));
    assert.equal(told[0].message, 'fetching the release');
  },

  async 'declined elicitation'(at) {
    at.asked = [];
    at.answer = { action: 'decline' };
    const done = await at.call(DEPLOY);
    assert.equal(at.asked.length, 1);
    assert.ok(done.isError && /Not deployed/.test(done.content[0].text), JSON.stringify(done));
  },

  async cancel({ call }) {
    const seconds = `6${process.hrtime.bigint() % 1000000n}`;   // a process to be told from all others
    const stopped = new AbortController();
    const answer = call({ name: 'nap', arguments: { seconds } }, { signal: stopped.signal }).then(
      () => assert.fail('answered'), () => 'rejected');
    await until('the process of nap', () => runs('/usr/bin/sleep', seconds));
    stopped.abort();
    await answer;
    await until('the end of the process of nap', () => !runs('/usr/bin/sleep', seconds));
    const newest = async () => (await rows('audit', 'calls', '--tenant', 'acme', '--tool', 'nap', '--limit', '1'))[0];
    await until('the end of the call in the audit', async () => (await newest()).outcome === 'cancelled');
  },

  async prompts({ client }) {
    const { prompts } = await client.listPrompts();
    assert.deepEqual(prompts.map(prompt => prompt.name), ['review']);
    assert.deepEqual(prompts[0].arguments, [{ name: 'change', required: true }, { name: 'tone' }]);
    const got = await client.getPrompt({ name: 'review', arguments: { change: '5' } });
    assert.deepEqual(got.messages, [{ role: 'user', content: { type: 'text', text: 'Review 5 .' } }]);
    await assert.rejects(client.getPrompt({ name: 'review', arguments: {} }), { code: -32602 });
    await assert.rejects(client.getPrompt({ name: 'none' }), { code: -32602 });
    const { completion } = await client.complete({
      ref: { type: 'ref/prompt', name: 'review' }, argument: { name: 'tone', value: 'st' } });
    assert.deepEqual(completion.values, ['strict']);
  },

  async resources({ row, client }) {
    const { resources } = await client.listResources();
    assert.deepEqual(resources.map(resource => resource.uri), ['docs://handbook']);
    const { resourceTemplates } = await client.listResourceTemplates();
    assert.deepEqual(resourceTemplates.map(template => template.uriTemplate), ['shop://orders/{id}']);
    const text = async uri => (await client.readResource({ uri })).contents[0].text;
    assert.equal(await text('docs://handbook'), 'Be kind.');
    assert.equal(await text('shop://orders/17'), 'order 17');
    // v2 says -32602 for what it hears as -32002, too.
    const code = row.kit.renames ? -32602 : -32002;
    await assert.rejects(client.readResource({ uri: 'shop://none' }), { code });
  },

  async list_changed(at) {
    const { row, client } = at;
    const names = async () => (await client.listTools()).tools.map(tool => tool.name);
    const told = async (what, change) => {
      at.heard = [];
      await change();
      const returned = performance.now();
      await until(`list_changed after ${what}`, () => at.heard.length > 0);
      latest = Math.max(latest, at.heard[0] - returned);
    };
    await row.kit.listen(client);
    await addTools(echo('told', 'First words.'));
    await told('grant add', () => crib('grant', 'add', 'acme', 'told'));
    assert.ok((await names()).includes('told'));
    await told('a new version', () => addTools(echo('told', `Version of ${performance.now()}.`)));
    await told('grant remove', () => crib('grant', 'remove', 'acme', 'told', '--yes'));
    assert.ok(!(await names()).includes('told'));

    // Another tenant's change is not told.  The answers below come behind anything that would have been sent.
    at.heard = [];
    await crib('grant', 'add', 'other', 'told');
    await addTools(echo('told', `Version for another of ${performance.now()}.`));
    await crib('grant', 'remove', 'other', 'told', '--yes');
    await names();
    await names();
    assert.equal(at.heard.length, 0, 'told of another tenant');
  },
};

// A tenant of many tools, page by page.
async function paged({ client }) {
  const pages = [];
  let cursor;
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor });
    // v2 follows the cursors of a first call itself.
    if (pages.length === 0 && page.tools.length === MANY) break;
    pages.push(page.tools.map(tool => tool.name));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  const expected = Array.from({ length: MANY }, (_, i) => `many-${String(i).padStart(3, '0')}`);
  if (pages.length) {
    assert.deepEqual(pages.map(page => page.length), [PAGE, PAGE, MANY - 2 * PAGE]);
    assert.deepEqual(pages.flat(), expected);
  } else {
    assert.deepEqual((await client.listTools()).tools.map(tool => tool.name), expected);
  }
}

// Every step on one connection, then the long list on one of the tenant that has it.
async function checkRow(row, transport, keys, origin) {
  const title = `${row.name} over ${transport}`;
  let at, wide;
  await check(`${title}: connect`, async () => { at = await connect(row, transport, keys.acme, origin); });
  for (const [name, step] of at ? Object.entries(steps) : [])
    await check(`${title}: ${name}`, () => step(at));
  await at?.client.close();
  await check(`${title}: ${MANY} tools in pages`, async () => {
    wide = await connect(row, transport, keys.wide, origin);
    await paged(wide);
  });
  await wide?.client.close();
}

try {
  await crib('init');
  // Every client asks deploy within a minute: more often than the example allows.
  await addExamples(TOOLS.filter(name => name !== 'nap'), text => text.replace('rate: 20/min', 'rate: 1000/min'));
  await addTools(nap);
  await addDocuments('prompt', prompt);
  await addDocuments('resource', resources);
  await addTools(...Array.from({ length: MANY }, (_, i) => echo(`many-${String(i).padStart(3, '0')}`, 'One of many.')));
  const keys = {};
  for (const [tenant, ...grants] of [['acme', ...TOOLS, 'prompt:*', 'resource:*'], ['wide', 'many-*'], ['other', 'get_weather']]) {
    await crib('tenant', 'add', tenant);
    await crib('grant', 'add', tenant, ...grants);
    keys[tenant] = await key(`${tenant}/agent`);
  }
  const origin = `http://${await start()}`;
  for (const row of clients)
    for (const transport of row.over)
      await checkRow(row, transport, keys, origin);
} finally {
  stop();
}
console.log(`   list_changed is heard at most ${latest.toFixed(1)} ms after a command returned`);
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
