// README's "A tool in ten lines", typed as it stands: each recipe makes a tool, which every SDK client then calls, and the
// audit, asked in README's words, names the version that ran.  Run by `make check-clients`.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { clients, transports } from './clients.mjs';
import { check, counts, crib, folder, key, rows, source, start, stop, type } from './crib.mjs';

const LINES_MAX = 10;
const home = join(folder, 'home');
const packages = fileURLToPath(new URL('node_modules', import.meta.url));

// The recipes by heading: the text of the first block under each "###" of the section.
function recipes() {
  const [section] = readFileSync(join(source, 'README'), 'utf8').match(/^## A tool in ten lines$[^]*?(?=^## )/m);
  return Object.fromEntries(section.split(/^### /m).slice(1).map(part =>
    [part.match(/^.*$/m)[0], part.match(/^```\n([^]*?)^```$/m)[1]]));
}

// What README takes for granted: a service that wants a token, a folder with a note.
async function api() {
  const server = createServer((request, response) => {
    const known = request.headers.authorization === 'Bearer s3same';
    response.writeHead(known ? 200 : 401, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ path: request.url }));
  }).listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  writeFileSync(join(home, 'token.txt'), 's3same');
  return server;
}

// The one line that is not typed: npm would fetch what is newest; these are the pinned packages, where it would put them.
function install(text) {
  return text.replace(/^npm install --prefix ~\/mcp (\S+)$/m, (line, name) => {
    assert.ok(existsSync(join(packages, name, 'dist/index.js')), name);
    if (!existsSync(join(home, 'mcp')))
      cpSync(packages, join(home, 'mcp/node_modules'), { recursive: true, verbatimSymlinks: true });
    return '';
  });
}

const text = result => result.content.map(block => block.text ?? '').join('\n');

// What each heading's tool is called with, and what it answers.
const uses = {
  'A shell script': { name: 'count_words', arguments: { text: 'one two three' }, answer: /^3\n$/ },
  'A REST API': { name: 'find_orders', arguments: { customer: 'a/b', limit: 2 }, answer: /"\/customers\/a%2Fb\/orders\?limit=2"/ },
  'A SQL query': { name: 'find_products', arguments: { part: 'ham' }, answer: /\[\["claw hammer",12\]\]/ },
  'An MCP server': { name: 'every_echo', arguments: { message: 'hello' }, answer: /^Echo: hello$/ },
  'An MCP server for files': { name: 'files_read_text_file', arguments: { path: join(home, 'shared/note.txt') }, answer: /^a note$/ },
};

// The newest call as README asks for it, and its records: the digest of the version in force stands in them.
async function audited(asked, name) {
  const [calls, show, history] = asked.split('\n').map(line => line.replace(/ *#.*/, '').split(' ').slice(1));
  const [call] = await rows(...calls);
  assert.deepEqual([call.tool, call.outcome], [name, 'ok']);
  const records = await rows(...show.map(word => word.includes('…') ? call.call : word));
  const [version] = await rows(...history.map(word => word === 'find_orders' ? name : word));
  assert.match(version.digest, /^[0-9a-f]{64}$/);
  assert.ok(JSON.stringify(records).includes(`"definition":"${version.digest}"`), JSON.stringify(records));
}

mkdirSync(home);
const server = await api();
try {
  await crib('init');
  await crib('tenant', 'add', 'acme');
  const secret = await key('acme/agent');
  const origin = `http://${await start()}`;
  const { 'What was called, and which version of it': asked, ...tools } = recipes();
  assert.deepEqual(Object.keys(tools), Object.keys(uses));
  for (const [title, recipe] of Object.entries(tools)) {
    const { answer, ...call } = uses[title];
    await check(`${title}: typed`, async () => {
      const lines = recipe.trimEnd().split('\n').length;
      assert.ok(lines <= LINES_MAX, `${lines} lines`);
      await type(install(recipe).replaceAll('127.0.0.1:8000', `127.0.0.1:${server.address().port}`), home);
      if (existsSync(join(home, 'shared')))
        writeFileSync(join(home, 'shared/note.txt'), 'a note');
    });
    for (const row of clients)
      await check(`${title}: called by ${row.name}, audited`, async () => {
        const client = row.kit.make();
        await client.connect(transports.HTTP(row.kit, secret, origin));
        const result = await row.kit.call(client, call);
        await client.close();
        assert.ok(!result.isError, text(result));
        assert.match(text(result), answer);
        await audited(asked, call.name);
      });
  }
} finally {
  server.close();
  stop();
}
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
