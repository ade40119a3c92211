// Access tokens from a real authorization server (oidc-provider), by the SDK clients' own OAuth code: discovery from a 401 to
// a working call, more scope when it is needed, expiry and refresh, new keys at the provider, a token for somebody else.
// Run by `make check-clients`.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';
import { clients } from './clients.mjs';
import { addDocuments, addTools, check, counts, crib, rows, start, stop, until } from './crib.mjs';

const CALLBACK = 'http://127.0.0.1/callback';
const ECHO = 'name: echo\ndescription: Says it.\ninputSchema: {type: object}\nhandler: {type: builtin, function: echo}\n';
const PROMPT = 'kind: prompt\nname: review\nhandler: {type: static, text: Review it.}\n';
const scopes = 'tools.use prompts.use';

// How the authorization server knows the client.  One that registers itself may only ever ask for what it was asked for then.
const client = { client_name: 'check-clients', redirect_uris: [CALLBACK], application_type: 'native',
  token_endpoint_auth_method: 'none', grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] };

// The authorization server.  What a test changes: the life of a token, whether it can be renewed, whom it is for.
const as = { lifeS: 300, refresh: false, audience: undefined, fetches: 0, keys: 0 };

function makeProvider() {
  const kid = `key-${++as.keys}`;
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const provider = new Provider(as.issuer, {
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid, alg: 'ES256', use: 'sig' }] },
    cookies: { keys: ['of the test'] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    clients: [{ ...client, client_id: 'editor' }],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: () => as.refresh,
    ttl: { AccessToken: () => as.lifeS, AuthorizationCode: 60, Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
    features: {
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          scope: scopes, audience: as.audience ?? resource, accessTokenTTL: as.lifeS, accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'ES256' } } }),
      },
    },
  });
  as.provider = provider;
  as.handle = provider.callback();
}

// Alice is logged in and agrees to everything.
async function agree(request, response) {
  const { params } = await as.provider.interactionDetails(request, response);
  const grant = new as.provider.Grant({ accountId: 'alice', clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  grant.addResourceScope(params.resource, params.scope);
  const result = { login: { accountId: 'alice' }, consent: { grantId: await grant.save() } };
  await as.provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

const server = createServer((request, response) => {
  if (request.url === '/jwks') as.fetches++;
  if (request.url.startsWith('/interaction/')) agree(request, response).catch(error => response.destroy(error));
  else as.handle(request, response);
});

// What a browser does between the client's redirect and its callback.
async function browse(url) {
  const cookies = new Map();
  for (let i = 0; i < 20; i++) {
    const response = await fetch(url, { redirect: 'manual', headers: { cookie: [...cookies].map(pair => pair.join('=')).join('; ') } });
    for (const line of response.headers.getSetCookie()) {
      const [name, ...value] = line.split(';')[0].split('=');
      cookies.set(name, value.join('='));
    }
    const next = response.headers.get('location');
    assert.ok(next, `${url}: ${response.status} ${await response.text()}`);
    url = new URL(next, url);
    if (url.href.startsWith(CALLBACK)) return url.searchParams;
  }
  throw new Error('redirected for ever');
}

// The SDK's OAuthClientProvider of somebody with a browser.
class Person {
  redirectUrl = CALLBACK;
  asked = [];                   // scopes of each authorization request
  clientMetadata = client;
  information = { client_id: 'editor', issuer: as.issuer };
  clientInformation() { return this.information; }
  saveClientInformation(information) { this.information = information; }
  tokens() { return this.token; }
  saveTokens(token) { this.token = token; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
  discoveryState() { return this.discovery; }
  saveDiscoveryState(state) { this.discovery = state; }
  async redirectToAuthorization(url) {
    assert.equal(url.searchParams.get('resource'), this.resource);
    // v2 asks for a refresh token by itself.
    this.asked.push(url.searchParams.get('scope').replace(' offline_access', ''));
    this.came = await browse(url);
  }
}

const isUnauthorized = error => /Unauthorized/.test(`${error?.name} ${error?.constructor?.name} ${error?.cause?.name}`);

// Do it; when the client was sent to the authorization server, let it finish there and do it again.
async function authorized(at, what) {
  try {
    return await what();
  } catch (error) {
    if (!isUnauthorized(error) || !at.person.came) throw error;
    const came = at.person.came;
    at.person.came = undefined;
    await at.transport.finishAuth(at.kit.renames ? came : came.get('code'));
    return what();
  }
}

async function connect(row, url, person) {
  const at = { kit: row.kit, person };
  person.resource = url;
  await authorized(at, async () => {
    at.client = row.kit.make();
    at.transport = new row.kit.Http(new URL(url), { authProvider: person });
    await at.client.connect(at.transport);
  });
  at.say = () => authorized(at, () => row.kit.call(at.client, { name: 'echo', arguments: { text: 'x' } }));
  at.list = () => authorized(at, async () => (await at.client.listTools()).tools.map(tool => tool.name));
  at.prompts = () => authorized(at, async () => (await at.client.listPrompts()).prompts.map(prompt => prompt.name));
  return at;
}

const raw = (url, token) => fetch(url, { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', headers: {
  Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' } });

async function checkRow(row, url) {
  let at;
  const title = `${row.name} with tokens`;
  await check(`${title}: from a 401 to a call`, async () => {
    at = await connect(row, url, new Person());
    assert.deepEqual(await at.list(), ['echo']);
    assert.ok(!(await at.say()).isError);
    assert.deepEqual(at.person.asked, ['tools.use']);
    const [call] = await rows('audit', 'calls', '--tenant', 'acme', '--limit', '1');
    assert.deepEqual([call.tool, call.outcome], ['echo', 'ok']);
  });
  if (!at) return;
  await check(`${title}: step-up`, async () => {
    assert.deepEqual(await at.prompts(), ['review']);
    assert.deepEqual(at.person.asked, ['tools.use', scopes]);
    assert.deepEqual(await at.list(), ['echo']);        // what it had before is not lost
  });
  await check(`${title}: expiry and refresh`, async () => {
    Object.assign(as, { lifeS: 5, refresh: true });
    at.person.token = undefined;
    await at.say();
    const { access_token: old, refresh_token: refresh } = at.person.token;
    assert.ok(refresh);
    Object.assign(as, { lifeS: 300 });
    await until('the end of the token', async () => (await raw(url, old)).status === 401);
    const asked = at.person.asked.length;
    assert.ok(!(await at.say()).isError);
    assert.notEqual(at.person.token.access_token, old);
    assert.equal(at.person.asked.length, asked);        // nobody was asked again
  });
  await check(`${title}: new keys at the provider`, async () => {
    makeProvider();
    const before = as.fetches;
    const other = new Person();
    await until('a token by the new key', async () => {
      const fresh = await connect(row, url, other).catch(() => undefined);
      const list = await fresh?.list().catch(() => undefined);
      await fresh?.client.close();
      return list?.length === 1;
    });
    assert.equal(as.fetches, before + 1);
  });
  await check(`${title}: a token for somebody else`, async () => {
    as.audience = 'https://other.example.com/mcp';
    const other = new Person();
    await assert.rejects(connect(row, url, other));
    assert.ok(other.token, 'a token was had');
    const refused = await raw(url, other.token.access_token);
    assert.equal(refused.status, 401);
    assert.equal(await refused.text(), 'the token is for another resource\n');
    as.audience = undefined;
  });
  Object.assign(as, { lifeS: 300, refresh: false, audience: undefined });
  await at.client.close();
}

try {
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  const address = `127.0.0.1:${server.address().port}`;
  as.issuer = `http://${address}`;
  makeProvider();
  await crib('init');
  await crib('tenant', 'add', 'acme');
  await addTools(ECHO);
  await addDocuments('prompt', PROMPT);
  await crib('grant', 'add', 'acme', 'echo', 'prompt:*');
  const url = `http://${await start(`oauth:
  jwks_interval: 1
  issuers:
  - issuer: ${as.issuer}
    jwks_uri: ${as.issuer}/jwks
    allow: ["${address}"]
    tenant: acme
    scopes: {tools.use: ["tools:list", "tools:call"], prompts.use: ["prompts:list", "prompts:get"]}
`)}/mcp`;
  for (const row of clients.filter(({ name }) => name === 'SDK v1' || name === 'SDK v2, auto'))
    await checkRow(row, url);
} finally {
  stop();
  server.closeAllConnections();
  server.close();
}
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
