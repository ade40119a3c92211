// README's "Connect your host", with the key and the places in it that contrib/quickstart puts there.  Entries are given to the
// clients that hosts are made of, Inspector reads those that it knows; commands and programs are typed, with the pinned packages
// where npx and npm would fetch what is newest.  Run by `make check-clients`.
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { clients } from './clients.mjs';
import { addExamples, build, check, counts, crib, env, folder, key, rows, source, start, stop, store } from './crib.mjs';

const run = promisify(execFile);
const packages = fileURLToPath(new URL('node_modules', import.meta.url));
const home = join(folder, 'home');
const bin = join(home, 'bin');
const call = { name: 'get_weather', arguments: { location: 'Oslo' } };
const kits = clients.filter(row => ['SDK v1', 'SDK v2, auto'].includes(row.name));
let secret;

// npx and claude as they are typed: npx runs what is pinned, claude says its words.
function shims() {
  mkdirSync(bin, { recursive: true });
  const inspector = join(packages, '@modelcontextprotocol/inspector-cli');
  copyFileSync(join(inspector, 'package.json'), join(packages, '@modelcontextprotocol/package.json'));     // where it looks for its own
  writeFileSync(join(bin, 'npx'), `#!/bin/sh
name=$1; shift
case $name in
@modelcontextprotocol/inspector) exec node "${inspector}/build/cli.js" "$@" ;;
mcp-remote) exec node "${packages}/mcp-remote/dist/proxy.js" "$@" ;;
esac
echo "no $name" >&2; exit 1
`, { mode: 0o755 });
  writeFileSync(join(bin, 'claude'), '#!/bin/sh\nprintf "%s\\n" "$@"\n', { mode: 0o755 });
  symlinkSync(packages, join(home, 'node_modules'));
}

const typist = () => ({ ...env, HOME: home, PATH: `${bin}:${process.env.PATH}`, TOOLCRIB_KEY: secret });

// Lines for a shell; what they said.
async function type(text) {
  return (await run('/bin/sh', ['-ec', text], { cwd: home, env: typist() })).stdout;
}

// The blocks by heading, filled in as quickstart does.
function sections(address) {
  const [section] = readFileSync(join(source, 'README'), 'utf8').match(/^## Connect your host$[^]*?(?=^## )/m);
  const filled = section.replaceAll('tck_…', secret).replaceAll('$TOOLCRIB_KEY', secret).replaceAll('127.0.0.1:8808', address)
    .replaceAll('/…/toolcribd', join(build, 'toolcribd')).replaceAll('/…/store', store);
  return Object.fromEntries(filled.split(/^### /m).slice(1).map(part =>
    [part.match(/^.*$/m)[0], [...part.matchAll(/^```\w*\n([^]*?)^```$/gm)].map(found => found[1])]));
}

const weather = result => assert.equal(result.structuredContent?.temperature ?? JSON.parse(result.content[0].text).temperature, 7.4);

async function connect(kit, transport) {
  const client = kit.make();
  await client.connect(transport);
  weather(await kit.call(client, call));
  await client.close();
}

// An entry, as the hosts' own clients take it.
async function entry(title, server) {
  for (const { name, kit } of kits)
    await check(`${title}: ${name}`, () => connect(kit, server.url
      ? new kit.Http(new URL(server.url), { requestInit: { headers: server.headers } })
      : new kit.Stdio({ ...server, env: { ...env, ...server.env }, stderr: 'ignore' })));
}

async function inspect(title, text) {
  await check(`${title}: read by Inspector`, async () => {
    const file = join(home, 'entry.json');
    writeFileSync(file, text);
    weather(JSON.parse(await type(`npx @modelcontextprotocol/inspector --cli --config ${file} --server crib \\
      --method tools/call --tool-name get_weather --tool-arg location=Oslo`)));
  });
}

const hosts = {
  async 'Claude Code'([line]) {
    const words = (await type(line)).trim().split('\n');
    assert.deepEqual(words.slice(0, 5), ['mcp', 'add', '--transport', 'http', 'crib']);
    assert.deepEqual([words[6], words.length], ['--header', 8]);
    const [name, value] = words[7].split(': ');
    await entry('Claude Code', { url: words[5], headers: { [name]: value } });
  },
  'VS Code': ([text]) => entry('VS Code', JSON.parse(text).servers.crib),
  Cursor: ([text]) => entry('Cursor', JSON.parse(text).mcpServers.crib),      // Inspector reads such a one from version 2 on
  async 'Hosts that start a program'([text, line]) {
    await entry('stdio', JSON.parse(text).mcpServers.crib);
    await inspect('stdio', text);
    const command = { command: '/bin/sh', args: ['-c', `exec ${line}`], env: typist(), stderr: 'ignore' };
    await check('mcp-remote: SDK v1', () => connect(kits[0].kit, new kits[0].kit.Stdio(command)));
  },
  'MCP Inspector': ([line]) => check('MCP Inspector: typed', async () => weather(JSON.parse(await type(line)))),
  'TypeScript SDK': ([text]) => check('TypeScript SDK: typed', async () =>
    assert.match(await type(text.replace(/^npm install .*$/m, '')), /temperature: 7\.4/)),
  async 'Python SDK'([text]) {
    if (spawnSync('python3', ['-c', 'from mcp import Client; import httpx2'], { stdio: 'ignore' }).status !== 0)
      return console.log('skipped Python SDK: python3 has no mcp of version 2');
    await check('Python SDK: typed', async () => assert.match(
      await type(text.replace(/^.*pip install .*$/m, '').replace('venv/bin/python', 'python3')), /'temperature': 7\.4/));
  },
};

shims();
try {
  await crib('init');
  await crib('tenant', 'add', 'demo');
  await addExamples(['get_weather']);
  await crib('grant', 'add', 'demo', 'get_weather');
  secret = await key('demo/agent');
  const found = sections(await start());
  assert.deepEqual(Object.keys(found), Object.keys(hosts));
  for (const [heading, blocks] of Object.entries(found))
    await check(`${heading}: README's blocks`, () => hosts[heading](blocks));
  await check('each call is on record', async () => {
    const calls = await rows('audit', 'calls', '--tenant', 'demo');
    assert.ok(calls.length >= 12 && calls.every(row => row.outcome === 'ok' && row.principal === 'agent'), JSON.stringify(calls));
  });
} finally {
  stop();
}
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
