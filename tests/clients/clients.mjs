// The clients: which SDK, which negotiation, which transports, and the few words in which the two SDKs differ.
import { join } from 'node:path';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as SseV1 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as ClientV2, SSEClientTransport as SseV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { build, env, store } from './crib.mjs';

const MODERN = '2026-07-28', LEGACY = '2025-11-25';
const info = { name: 'check-clients', version: '1' };
const capabilities = { elicitation: { form: {} } };

const v1 = { Http: HttpV1, Sse: SseV1, Stdio: StdioV1,
  make: () => new ClientV1(info, { capabilities }),
  onElicit: (client, answer) => client.setRequestHandler(ElicitRequestSchema, answer),
  onChanged: (client, heard) => client.setNotificationHandler(ToolListChangedNotificationSchema, heard),
  call: (client, params, options) => client.callTool(params, undefined, options),
  listen: async () => {},
  // The revision is the transport's knowledge in v1; that of stdio is not told.
  revision: client => client.transport.protocolVersion,
};

const v2 = (mode, revision) => ({ Http: HttpV2, Sse: SseV2, Stdio: StdioV2,
  make: () => new ClientV2(info, { capabilities, versionNegotiation: { mode } }),
  onElicit: (client, answer) => client.setRequestHandler('elicitation/create', answer),
  onChanged: (client, heard) => client.setNotificationHandler('notifications/tools/list_changed', heard),
  call: (client, params, options) => client.callTool(params, options),
  renames: true,
  listen: client => revision === MODERN ? client.listen({ toolsListChanged: true }) : undefined,
  revision: client => client.getNegotiatedProtocolVersion(),
});

const http = (Transport, key, url) =>
  new Transport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });

export const transports = {
  stdio: (kit, key) => new kit.Stdio({
    command: join(build, 'toolcribd'), args: ['--stdio', '--store', store], env: { ...env, TOOLCRIB_KEY: key }, stderr: 'ignore',
  }),
  HTTP: (kit, key, origin) => http(kit.Http, key, `${origin}/mcp`),
  'HTTP+SSE': (kit, key, origin) => http(kit.Sse, key, `${origin}/sse`),
};

export const clients = [
  { name: 'SDK v1', kit: v1, revision: LEGACY, over: ['stdio', 'HTTP', 'HTTP+SSE'] },
  { name: 'SDK v2, legacy', kit: v2('legacy', LEGACY), revision: LEGACY, over: ['stdio', 'HTTP', 'HTTP+SSE'] },
  { name: 'SDK v2, auto', kit: v2('auto', MODERN), revision: MODERN, over: ['stdio', 'HTTP'] },
  { name: 'SDK v2, pinned', kit: v2({ pin: MODERN }, MODERN), revision: MODERN, over: ['stdio', 'HTTP'] },
];
