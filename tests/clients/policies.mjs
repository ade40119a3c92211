// Two policy engines, Cedar and Casbin, decide about real calls of the official SDKs: each behind a front that speaks OpenID
// AuthZEN 1.0, one over TLS, one over a Unix socket.  Run by `make check-clients`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { newEnforcer, newModelFromString, StringAdapter } from 'casbin';
import { clients, transports } from './clients.mjs';
import { addTools, check, counts, crib, folder, key, rows, start, stop } from './crib.mjs';

const cedar = createRequire(import.meta.url)('@cedar-policy/cedar-wasm/nodejs');
const amountOf = asked => asked.context.arguments?.['/amount'] ?? 0;

// --- the engines: what was asked -> [allowed, why]

const cedarPolicies = `
  @id("small") permit (principal is Identity, action == Action::"tools/call", resource == Tool::"pay")
    when { principal.tenant == "acme" && context.amount <= 1000 };
  @id("forget") permit (principal, action == Action::"tools/call", resource == Tool::"forget");`;

function byCedar(asked) {
  const { subject, action, resource } = asked, principal = { type: 'Identity', id: subject.id };
  const answer = cedar.isAuthorized({
    principal, action: { type: 'Action', id: action.name }, resource: { type: 'Tool', id: resource.id }, context: { amount: amountOf(asked) },
    policies: { staticPolicies: cedarPolicies }, entities: [{ uid: principal, attrs: subject.properties, parents: [] }],
  });
  if (answer.type !== 'success') throw new Error(JSON.stringify(answer.errors));
  return [answer.response.decision === 'allow', `policies ${answer.response.diagnostics.reason.join(',') || 'none'}`];
}

const casbin = await newEnforcer(newModelFromString(`
  [request_definition]
  r = sub, obj, act, amount
  [policy_definition]
  p = tenant, obj, act, most
  [policy_effect]
  e = some(where (p.eft == allow))
  [matchers]
  m = r.sub.properties.tenant == p.tenant && r.obj == p.obj && r.act == p.act && r.amount <= p.most`),
  new StringAdapter('p, acme, pay, tools/call, 2000'));

const byCasbin = async asked => [await casbin.enforce(asked.subject, asked.resource.id, asked.action.name, amountOf(asked)), 'casbin'];

// --- the front: AuthZEN's evaluation over HTTP (Authorization API 1.0, sections 6 and 10)

const seen = { cedar: [], casbin: [] };

function front(name, decide) {
  return async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    const id = request.headers['x-request-id'];         // none where it is asked what it says of itself
    const say = (status, answer) => response.writeHead(status, {
      'content-type': 'application/json', ...(id && { 'x-request-id': id }) }).end(JSON.stringify(answer));
    try {
      if (request.method !== 'POST' || request.url !== '/access/v1/evaluation') return say(404, {});
      const asked = JSON.parse(body);
      for (const [entity, words] of Object.entries({ subject: ['type', 'id'], action: ['name'], resource: ['type', 'id'] }))
        for (const word of words) assert.equal(typeof asked[entity][word], 'string', `${entity}.${word}`);
      seen[name].push(asked);
      const [decision, why] = await decide(asked);
      return say(200, decision ? { decision } : { decision, context: { reason_admin: { en: why }, reason_user: { 403: `${name} says no` } } });
    } catch (error) {
      return say(500, { error: String(error) });
    }
  };
}

const openssl = (...words) => execFileSync('openssl', words, { stdio: 'ignore' });
const [cert, secret, socket] = ['pdp.crt', 'pdp.key', 'pdp.sock'].map(name => join(folder, name));
openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=localhost',
  '-addext', 'subjectAltName=DNS:localhost', '-keyout', secret, '-out', cert);
const far = createHttps({ cert: readFileSync(cert), key: readFileSync(secret) }, front('cedar', byCedar)).listen(0, '127.0.0.1');
const near = createHttp(front('casbin', byCasbin)).listen(socket);
await Promise.all([far, near].map(server => server.listening || new Promise(resolve => server.once('listening', resolve))));

// --- the calls

const tool = (name, more = '') => `name: ${name}\ndescription: Tries a policy.\ninputSchema: {type: object, properties: {amount: {type: integer}}}
policy: {arguments: [/amount]}\nhandler: {type: static, text: done}\n${more}`;

await crib('init');
await addTools(tool('pay'), tool('forget', 'annotations: {destructiveHint: true}\n'));
const keys = {};
for (const tenant of ['acme', 'other']) {
  await crib('tenant', 'add', tenant);
  await crib('grant', 'add', tenant, '*');
  keys[tenant] = await key(`${tenant}/bot`);
}
const address = await start(`pdp:
- {name: cedar, url: "https://localhost:${far.address().port}", ca: "${cert}", timeout: 5s, arguments: chosen, reason: /context/reason_user/403}
- {name: casbin, socket: "${socket}", timeout: 5s, arguments: chosen, reason: /context/reason_user/403}
`);

async function call(row, tenant, name, args) {
  const client = row.kit.make();
  await client.connect(transports.HTTP(row.kit, keys[tenant], `http://${address}`));
  try {
    const result = await row.kit.call(client, { name, arguments: args });
    return `${result.isError ? 'error' : 'ok'}: ${result.content[0].text}`;
  } catch (error) {
    return `${error.code ?? ''} ${error.message}`;
  } finally {
    await client.close();
  }
}

const newest = async tenant => (await rows('audit', 'calls', '--tenant', tenant, '--limit', '1'))[0];

for (const row of clients) {
  await check(`${row.name}: both engines allow, and it runs`, async () => {
    assert.equal(await call(row, 'acme', 'pay', { amount: 5 }), 'ok: done');
    assert.equal((await newest('acme')).outcome, 'ok');
    assert.deepEqual(seen.cedar.at(-1), seen.casbin.at(-1));
    assert.deepEqual(seen.cedar.at(-1).context.arguments, { '/amount': 5 });
  });
  await check(`${row.name}: Cedar denies what is too much for it`, async () => {
    assert.equal(await call(row, 'acme', 'pay', { amount: 1500 }), 'error: Refused by policy: cedar says no');
    const record = await newest('acme');
    assert.deepEqual([record.outcome, record.rule], ['denied', 'pdp/cedar']);
    assert.match(record.detail, /policies none/);
  });
  await check(`${row.name}: Casbin denies what it has no line for`, async () => {
    assert.equal(await call(row, 'acme', 'forget', {}), 'error: Refused by policy: casbin says no');
    assert.equal((await newest('acme')).rule, 'pdp/casbin');
    assert.equal(seen.casbin.at(-1).resource.properties.annotations.destructiveHint, true);
  });
  await check(`${row.name}: another tenant's caller is another subject`, async () => {
    assert.match(await call(row, 'other', 'pay', { amount: 5 }), /^error: Refused by policy: /);
  });
}

await check('an engine that is gone lets nothing run', async () => {
  near.closeAllConnections();
  await new Promise(resolve => near.close(resolve));
  assert.match(await call(clients[0], 'acme', 'pay', { amount: 5 }), /The policy could not be asked|503/);
  const record = await newest('acme');
  assert.deepEqual([record.outcome, record.rule], ['denied', 'pdp/casbin/unreachable']);
});

far.closeAllConnections();
far.close();
await stop();
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
