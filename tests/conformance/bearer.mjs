// Preload of the conformance suite, which has no option for request headers: puts the bearer token of TOOLCRIB_KEY on
// each request to loopback and leaves the rest as the suite wrote it.  fetch() and undici announce a request on one
// channel, node's http on another, both before anything is written.
import { subscribe } from 'node:diagnostics_channel';

const value = `Bearer ${process.env.TOOLCRIB_KEY}`;
const loopback = new Set(['localhost', '127.0.0.1', '[::1]', '::1']);

subscribe('undici:request:create', ({ request }) => {
  if (loopback.has(new URL(request.origin).hostname)) request.addHeader('authorization', value);
});
// request.host is where the socket goes; the Host header may say something else on purpose.
subscribe('http.client.request.created', ({ request }) => {
  if (loopback.has(request.host) && !request.headersSent) request.setHeader('authorization', value);
});
