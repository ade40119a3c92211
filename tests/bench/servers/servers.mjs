// node servers.mjs KIND: a server with the tool echo, as its documentation writes one for many short requests, with answers as JSON; says
// its port, ends with its standard input.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";

const kinds = {
  // the SDK of TypeScript, second line: a server for each request, revision 2026-07-28
  async sdk2() {
    const { McpServer, createMcpHandler } = await import("@modelcontextprotocol/server");
    const { toNodeHandler } = await import("@modelcontextprotocol/node");
    const { z } = await import("zod");
    return createServer(toNodeHandler(createMcpHandler(() => {
      const server = new McpServer({ name: "echo", version: "1.0.0" });
      server.registerTool("echo", { description: "Echo", inputSchema: z.object({ text: z.string() }) },
                          async ({ text }) => ({ content: [{ type: "text", text }] }));
      return server;
    })));
  },
  // the first line of it: without sessions a server and a transport for each request, too
  async sdk1() {
    const { McpServer } = await import("@modelcontextprotocol/sdk/server/mcp.js");
    const { StreamableHTTPServerTransport } = await import("@modelcontextprotocol/sdk/server/streamableHttp.js");
    const { z } = await import("zod");
    return createServer(async (req, res) => {
      const server = new McpServer({ name: "echo", version: "1.0.0" });
      server.registerTool("echo", { description: "Echo", inputSchema: { text: z.string() } }, async ({ text }) => ({ content: [{ type: "text", text }] }));
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
      res.on("close", () => { transport.close(); server.close(); });
      await server.connect(transport);
      await transport.handleRequest(req, res);
    });
  },
  // one server and one session, as long as all requests are of that
  async "sdk1-session"() {
    const { McpServer } = await import("@modelcontextprotocol/sdk/server/mcp.js");
    const { StreamableHTTPServerTransport } = await import("@modelcontextprotocol/sdk/server/streamableHttp.js");
    const { z } = await import("zod");
    const server = new McpServer({ name: "echo", version: "1.0.0" });
    server.registerTool("echo", { description: "Echo", inputSchema: { text: z.string() } }, async ({ text }) => ({ content: [{ type: "text", text }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, enableJsonResponse: true });
    await server.connect(transport);
    return createServer((req, res) => transport.handleRequest(req, res));
  },
  async fastmcp(port, stateless = true) {
    const { FastMCP } = await import("fastmcp");
    const { z } = await import("zod");
    const server = new FastMCP({ name: "echo", version: "1.0.0", logger: { debug() {}, error() {}, info() {}, log() {}, warn() {} } });
    server.addTool({ name: "echo", description: "Echo", parameters: z.object({ text: z.string() }), execute: async ({ text }) => text });
    await server.start({ transportType: "httpStream", httpStream: { port, host: "127.0.0.1", stateless, enableJsonResponse: true } });
  },
  "fastmcp-session": port => kinds.fastmcp(port, false),
};
const free = () => new Promise(done => { const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); }); });
const port = await free(), server = await kinds[process.argv[2]](port);

if (server) await new Promise(done => server.listen(port, "127.0.0.1", done));
console.log(port);
process.stdin.on("end", () => process.exit(0)).resume();
