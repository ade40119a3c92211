// README's "Host a tool", and the server for files of contrib/doc/hosting.md, typed as they stand: each recipe makes a tool, which
// every SDK client then calls, and the audit, asked in README's words, names the version that ran.  Run by `make check-clients`.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { clients, transports } from './clients.mjs';
import { check, counts, crib, folder, key, rows, source, start, stop, type } from './crib.mjs';

const LINES_MAX = 18;
const home = join(folder, 'home');
const packages = fileURLToPath(new URL('node_modules', import.meta.url));

// The text of a section, and of the first block in it.
const section = (page, title) => readFileSync(join(source, page), 'utf8').split(/^(?=## )/m).find(part => part.startsWith(`## ${title}\n`));
const block = text => text.match(/^```\n([^]*?)^```$/m)[1];

// The recipes by heading: the first block under each "###" of the section.
const recipes = () => ({
  ...Object.fromEntries(section('README', 'Host a tool').split(/^### /m).slice(1).map(part => [part.match(/^.*$/m)[0], block(part)])),
  'MCP servers': block(section('contrib/doc/hosting.md', 'MCP servers')),
});

// What README takes for granted: a service that wants a token, a folder with a note.
async function api() {
  const server = createServer((request, response) => {
    const known = request.headers.authorization === 'Bearer s3same';
    response.writeHead(known ? 200 : 401, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ path: request.url }));
  }).listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  return server;
}

// The lines that are not typed: the API is there, on any port, and npm would fetch what is newest; these are the pinned packages,
// where it would put them.
function install(text) {
  return text.replace(/^python3 -m http\.server .*$/m, '').replace(/^npm install --prefix ~\/mcp (\S+)$/m, (line, name) => {
    assert.ok(existsSync(join(packages, name, 'dist/index.js')), name);
    if (!existsSync(join(home, 'mcp')))
      cpSync(packages, join(home, 'mcp/node_modules'), { recursive: true, verbatimSymlinks: true });
    return '';
  });
}

const text = result => result.content.map(block => block.text ?? '').join('\n');

// What each heading's tool is called with, and what it answers.
const uses = {
  'A Python function': { name: 'shout', arguments: { text: 'hello' }, answer: /"HELLO!"/ },
  'A Node function': { name: 'slug', arguments: { title: 'A b' }, answer: /"a-b"/ },
  'A shell script': { name: 'count_words', arguments: { text: 'one two three' }, answer: /^3\n$/ },
  'A REST API': { name: 'find_order', arguments: { number: 7 }, answer: /"\/orders\/7\.json"/ },
  'A SQL query': { name: 'find_products', arguments: { part: 'ham' }, answer: /\[\["claw hammer",12\]\]/ },
  'An MCP server': { name: 'every_echo', arguments: { message: 'hello' }, answer: /^Echo: hello$/ },
  'MCP servers': { name: 'files_read_text_file', arguments: { path: join(home, 'shared/note.txt') }, answer: /^a note$/ },
};

// The newest call as README asks for it, and its records: the digest of the version in force stands in them.
async function audited(asked, name) {
  const words = verb => asked.match(new RegExp(`^toolcrib (${verb} [^"#\\n]*)`, 'm'))[1].trim().split(' ');
  const [call] = await rows(...words('audit calls'));
  assert.deepEqual([call.tool, call.outcome], [name, 'ok']);
  const records = await rows(...words('audit show'), call.call);
  const [version] = await rows(...words('tool history').map(word => word === 'find_order' ? name : word));
  assert.match(version.digest, /^[0-9a-f]{64}$/);
  assert.ok(JSON.stringify(records).includes(`"definition":"${version.digest}"`), JSON.stringify(records));
}

mkdirSync(home);
const server = await api();
try {
  await crib('init');
  await crib('tenant', 'add', 'demo');
  const secret = await key('demo/agent');
  const origin = `http://${await start()}`;
  const asked = block(section('README', 'Who called what'));
  const tools = recipes();
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
