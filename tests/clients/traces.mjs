// A trace that an SDK client begins goes on through toolcrib into an upstream that is the SDK's own server: each has the one
// before as its parent.  The collector is node's http and reads what OTLP's protobuf says.  Run by `make check-clients`.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { clients, transports } from './clients.mjs';
import { check, counts, crib, key, start, stop, until } from './crib.mjs';

// --- protobuf: the fields of a message that are messages or bytes, and of a span what says who it is

function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) return n;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint()), wire = tag & 7;
    if (wire === 0) varint();
    else if (wire === 1 || wire === 5) at += wire === 1 ? 8 : 4;
    else {
      assert.equal(wire, 2);
      const length = Number(varint());
      yield [tag >> 3, bytes.subarray(at, at += length)];
    }
  }
  assert.equal(at, bytes.length);
}

const inside = (bytes, field) => [...fields(bytes)].filter(([number]) => number === field).map(([, value]) => value);

function span(bytes) {
  const of = Object.fromEntries([...fields(bytes)].filter(([number]) => number < 6));
  return { trace: of[1].toString('hex'), id: of[2].toString('hex'), parent: of[4]?.toString('hex') ?? '', name: of[5].toString() };
}

const spans = [];
const collector = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  for (const resource of inside(Buffer.concat(parts), 1))
    for (const scope of inside(resource, 2)) spans.push(...inside(scope, 2).map(span));
  response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
});

// --- the upstream: says what came with the call

const upstream = createServer(async (request, response) => {
  const server = new Server({ name: 'there', version: '1' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: 'tell', description: 'Says what came.', inputSchema: { type: 'object' } }] }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => ({ content: [{ type: 'text', text: JSON.stringify(params._meta ?? {}) }] }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  response.on('close', () => server.close());
  await server.connect(transport);
  await transport.handleRequest(request, response);
});
await Promise.all([collector, upstream].map(server => new Promise(resolve => server.listen(0, '127.0.0.1', resolve))));

await crib('init');
await crib('tenant', 'add', 'acme');
await crib('grant', 'add', 'acme', '*');
const secret = await key('acme/bot');
await crib('upstream', 'add', 'there', '--url', `http://127.0.0.1:${upstream.address().port}/mcp`, '--allow-private', 'yes', '--shared', 'yes');
const origin = `http://${await start(`otel: {endpoint: "http://127.0.0.1:${collector.address().port}"}\n`)}`;
await crib('upstream', 'sync', 'there');

for (const row of clients)
  await check(`${row.name}: its trace goes on into the upstream`, async () => {
    const [trace, parent] = [16, 8].map(size => randomBytes(size).toString('hex'));
    const client = row.kit.make();
    await client.connect(transports.HTTP(row.kit, secret, origin));
    const result = await row.kit.call(client, { name: 'there_tell', arguments: {}, _meta: { traceparent: `00-${trace}-${parent}-01` } });
    await client.close();
    const there = JSON.parse(result.content[0].text).traceparent;
    const ours = await until('two spans of the call', () => {
      const found = spans.filter(one => one.trace === trace);
      return found.length >= 2 && found;
    });
    const server = ours.find(one => one.name === 'tools/call there_tell'), out = ours.find(one => one.name === 'tools/call tell');
    assert.equal(server.parent, parent);
    assert.equal(out.parent, server.id);
    assert.equal(there, `00-${trace}-${out.id}-01`);
  });

for (const server of [collector, upstream]) {
  server.closeAllConnections();
  server.close();
}
stop();
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);
