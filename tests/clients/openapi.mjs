// GitHub's public description of its REST API, 13 MB, becomes tools: each operation, or a reason why not.  All are stored by one apply,
// exported and applied again; an SDK client calls some, and a fake of that API sees method, path, query, body and headers.
// Run by `make check-clients`; the description comes from npm, of a pinned version.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { clients, transports } from './clients.mjs';
import { build, check, counts, crib, env, folder, key, rows, start, stop, store } from './crib.mjs';

const PACKAGE = '@octokit/openapi@23.0.2';
const INTEGRITY = 'sha512-pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==';
const MEMBER = 'package/generated/api.github.com.json';
const TOOLS_LEAST = 1150;
const SECONDS_MAX = 10, KIB_MAX = 512 << 10;    // of the processor, and of memory, for an import
const METHODS = ['get', 'put', 'post', 'delete', 'patch', 'head', 'options', 'trace'];
const UPLOAD = '/repos/{owner}/{repo}/releases/{release_id}/assets';
const run = promisify(execFile);

async function describe() {
  const { stdout } = await run('npm', ['pack', PACKAGE, '--silent', '--pack-destination', folder], { cwd: folder });
  const archive = join(folder, stdout.trim().split('\n').pop());
  assert.equal(`sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`, INTEGRITY);
  await run('tar', ['-xzf', archive, '-C', folder, MEMBER]);
  return join(folder, MEMBER);
}

// Import within its bounds; those of memory are no bounds of a program with a sanitizer's shadow.
async function limited(...words) {
  const toolcrib = join(build, 'toolcrib'), bounds = [`ulimit -t ${SECONDS_MAX}`];
  if (!readFileSync(toolcrib).includes('__asan_init') && !readFileSync(toolcrib).includes('__tsan_init'))
    bounds.push(`ulimit -v ${KIB_MAX}`);
  return run('/bin/sh', ['-c', `${bounds.join(' && ')} && exec "$0" "$@"`, toolcrib, '--store', store, 'import', 'openapi', ...words],
    { env, maxBuffer: 1 << 30 });
}

const operations = api => Object.values(api.paths).flatMap(item => METHODS.filter(method => item[method]).map(method => item[method]));

// The API itself: answers what the description shows as an example, and keeps what it was asked.
function fake(api) {
  const asked = [];
  const at = ref => ref.slice(2).split('/').reduce((value, name) => value[name.replace(/~1/g, '/').replace(/~0/g, '~')], api);
  const deref = value => value?.$ref ? at(value.$ref) : value;
  const routes = Object.entries(api.paths).map(([path, item]) => ({ item, path,
    is: new RegExp(`^${path.split(/\{[^}]*\}/).map(part => part.replace(/[.*+?^$()|[\]\\]/g, '\\$&')).join('[^/]+')}$`) }));
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request)
      parts.push(part);
    const url = new URL(request.url, 'http://fake'), path = url.pathname.replace(/^\/uploads/, '');
    asked.push({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(parts) });
    const operation = routes.filter(route => route.is.test(path)).map(route => route.item[request.method.toLowerCase()]).find(one => one);
    const [status, answer] = Object.entries(operation?.responses ?? { 404: {} }).find(([code]) => /^[24]/.test(code));
    const [type, content] = Object.entries(deref(answer).content ?? {})[0] ?? [];
    const example = deref(Object.values(content?.examples ?? {})[0])?.value;
    response.writeHead(Number(status), type ? { 'Content-Type': type } : {});
    response.end(type ? typeof example === 'string' ? example : JSON.stringify(example) : undefined);
  });
  return { server, asked };
}

const calls = [
  { name: 'issues_list-for-repo', arguments: { owner: 'octo', repo: 'a/b', state: 'open', labels: 'bug,ui', per_page: 5 },
    method: 'GET', url: '/repos/octo/a%2Fb/issues?state=open&labels=bug%2Cui&per_page=5' },
  { name: 'issues_create', arguments: { owner: 'octo', repo: 'hello', title: 'Found a bug', labels: ['bug'] },
    method: 'POST', url: '/repos/octo/hello/issues', type: 'application/json', body: '{"title":"Found a bug","labels":["bug"]}' },
  { name: 'gists_update-comment', arguments: { gist_id: '7', comment_id: 9, body: 'é' },
    method: 'PATCH', url: '/gists/7/comments/9', type: 'application/json', body: '{"body":"é"}' },
  { name: 'actions_delete-artifact', arguments: { owner: 'octo', repo: 'hello', artifact_id: 3 },
    method: 'DELETE', url: '/repos/octo/hello/actions/artifacts/3' },
  { name: 'markdown_render-raw', arguments: { body: '# Title\n' }, method: 'POST', url: '/markdown/raw', type: 'text/plain', body: '# Title\n' },
  { name: 'repos_upload-release-asset', arguments: { owner: 'octo', repo: 'hello', release_id: 1, name: 'a.bin', body: 'AP+JUE5H' },
    method: 'POST', url: '/uploads/repos/octo/hello/releases/1/assets?name=a.bin', type: 'application/octet-stream',
    body: Buffer.from('AP+JUE5H', 'base64') },
];

async function called(client, kit, asked, { name, method, url, type, body, arguments: given }) {
  const result = await kit.call(client, { name, arguments: given });
  const seen = asked.at(-1);
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result).slice(0, 500)}`);
  assert.deepEqual([seen.method, seen.url], [method, url]);
  assert.equal(seen.headers.authorization, 'Bearer s3same');
  assert.equal(seen.headers['content-type'], type);
  assert.deepEqual(seen.body, Buffer.from(body ?? ''));
}

async function main() {
  const file = await describe(), api = JSON.parse(readFileSync(file, 'utf8')), all = operations(api).length;
  const { server, asked } = fake(api);
  const tools = join(folder, 'github'), whole = join(folder, 'whole'), again = join(folder, 'again');

  server.listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;
  await check(`import openapi: ${all} operations`, async () => {
    const { stderr } = await limited(file, '--output', whole);
    const out = stderr.split('\n').filter(line => line.includes('the operation is left out: '));
    const made = readdirSync(whole).length;
    console.log(`   ${made} tools, ${out.length} left out${out.map(line => `\n   ${line}`).join('')}`);
    assert.ok(made > TOOLS_LEAST, String(made));
    assert.equal(made + out.length, all);
  });
  await check('import openapi: in one line, another server, a header', async () => {
    api.paths[UPLOAD].post.servers[0].url = `${origin}/uploads`;
    writeFileSync(join(folder, 'line.json'), JSON.stringify(api));
    await limited(join(folder, 'line.json'), '--server', origin, '--header', 'Authorization: Bearer {secret:github}', '--output', tools);
    assert.deepEqual(readdirSync(tools), readdirSync(whole));
  });
  await check('apply, export and apply again', async () => {
    await crib('init');
    await crib('apply', '-f', tools);
    assert.equal((await rows('tool', 'list')).length, readdirSync(tools).length);
    await crib('export', '--output', again);
    assert.match(await crib('apply', '-f', again), /nothing differs|0 added, 0 changed, 0 removed/);
  });
  await check('calls arrive', async () => {
    writeFileSync(join(folder, 'secret'), 's3same');
    await crib('secret', 'set', 'github', '--file', join(folder, 'secret'));
    await crib('tenant', 'add', 'acme');
    await crib('grant', 'add', 'acme', '*');
    const secret = await key('acme/agent'), address = await start(), row = clients.find(one => one.name === 'SDK v2, auto');
    const client = row.kit.make(), names = [];
    await client.connect(transports.HTTP(row.kit, secret, `http://${address}`));
    for (let cursor; ;) {
      const page = await client.listTools(cursor ? { cursor } : undefined);
      names.push(...page.tools.map(tool => tool.name));
      if (!(cursor = page.nextCursor))
        break;
    }
    assert.equal(new Set(names).size, readdirSync(tools).length);
    for (const one of calls)
      await called(client, row.kit, asked, one);
    await client.close();
  });
  server.close();
}

mkdirSync(folder, { recursive: true });
try {
  await main();
} finally {
  stop();
}
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exitCode = counts.failed ? 1 : 0;
