/* What a modern request must bring, checked in the order of MCP B-11: the first fault is the answer. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "proto/caps.h"

#include "method_int.h"

#define KEY "io.modelcontextprotocol/"
#define BASE64_HEAD "=?base64?"
#define BASE64_TAIL "?="

enum { CLAIM_SIZE = 128, LEVEL_SIZE = 32, HEADER_MAX = 8192 };

bool mcp_header_decode(const char *value, size_t len, struct str *ret)
{
	size_t head = strlen(BASE64_HEAD), tail = strlen(BASE64_TAIL), n;
	char *raw;
	bool ok;

	while (len && (*value == ' ' || *value == '\t')) {      /* MCP H-34 */
		value++;
		len--;
	}
	while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
		len--;
	if (len < head + tail || memcmp(value, BASE64_HEAD, head) != 0 ||
	    memcmp(value + len - tail, BASE64_TAIL, tail) != 0) {
		for (size_t i = 0; i < len; i++)
			if ((value[i] < 0x20 && value[i] != '\t') || value[i] == 0x7f)
				return false;
		str_put(ret, value, len);
		return true;
	}
	if (len > HEADER_MAX)
		return false;
	raw = mem_alloc(len);
	ok = text_unbase64(value + head, len - head - tail, raw, len, &n) == 0;
	if (ok)
		str_put(ret, raw, n);
	free(raw);
	return ok;
}

/* MCP M-06, M-07, B-41: data names the keys that are missing or of the wrong kind. */
static bool check_meta(const struct mcp_msg *msg, struct rpc_error *e)
{
	const struct rpc_meta *m = &msg->meta;
	bool claim = rpc_is(m->claim, '"'), caps = rpc_is(m->caps, '{');
	char client[MCP_CLIENT_SIZE];

	if (!claim || !caps) {
		rpc_error_init(e, FAULT_ENVELOPE, "params._meta lacks %s%s%s",
			       claim ? "" : KEY "protocolVersion (a string)", claim || caps ? "" : " and ",
			       caps ? "" : KEY "clientCapabilities (an object)");
		rpc_error_raw(e, "missing", !claim && !caps ?
			      "[\"" KEY "protocolVersion\",\"" KEY "clientCapabilities\"]" :
			      claim ? "[\"" KEY "clientCapabilities\"]" : "[\"" KEY "protocolVersion\"]");
		return false;
	}
	if (m->client.p && !client_read(m->client, client)) {
		rpc_error_init(e, FAULT_ENVELOPE, KEY "clientInfo must hold the strings name and version");
		return false;
	}
	return true;
}

/* MCP G-03, G-04 */
static bool check_log_level(struct mcp_req *req, const struct mcp_msg *msg, struct rpc_error *e)
{
	char level[LEVEL_SIZE];

	if (!msg->meta.level.p)
		return true;
	if (rpc_string(msg->meta.level, level, sizeof level, NULL))
		req->log_level = encode_log_level(level);
	else
		req->log_level = -1;
	if (req->log_level >= 0)
		return true;
	req->log_level = MCP_LOG_OFF;
	rpc_error_init(e, FAULT_ENVELOPE, KEY "logLevel is none of debug, info, notice, warning, error, "
		       "critical, alert, emergency");
	return false;
}

static bool header_is(const char *header, struct jx_span raw)
{
	struct str value = STR_INIT;
	char text[HEADER_MAX];
	size_t len;
	bool ok = header && mcp_header_decode(header, strlen(header), &value) &&
		rpc_string(raw, text, sizeof text, &len) && value.len == len &&
		memcmp(str_text(&value), text, len) == 0;

	str_fini(&value);
	return ok;
}

/* MCP H-32, H-33, B-37 */
static bool check_version_and_method(const struct mcp_msg *msg, const char *claim, struct rpc_error *e)
{
	const struct mcp_headers *h = msg->http;
	bool version = h->version && strcmp(h->version, claim) == 0;
	static struct log_site site;

	/* Known clients mix them up: whoever looks for the reason finds both values. */
	if (!version && log_allow(&site))
		log_info(NULL, "version refused header=%s claim=%s", h->version ? h->version : "", claim);

	if (h->duplicate)
		rpc_error_init(e, FAULT_HEADER, "A header of the protocol came twice");
	else if (!version)
		rpc_error_init(e, FAULT_HEADER, "MCP-Protocol-Version is %s, " KEY "protocolVersion is %s",
			       h->version ? h->version : "missing", claim);
	else if (!h->method || strcmp(h->method, msg->rpc->method) != 0)
		rpc_error_init(e, FAULT_HEADER, "Mcp-Method is %s, the method is %s",
			       h->method ? h->method : "missing", msg->rpc->method);
	else
		return true;
	return false;
}

/* MCP H-33, H-35.  A body without the string is left to the handler, which says what it lacks. */
static bool check_name(const struct mcp_msg *msg, struct rpc_error *e)
{
	const struct mcp_method *m = mcp_method_find(msg->rpc->method);
	struct jx_span body = { NULL, 0 };
	const char *what = NULL;

	switch (m ? m->repeats : NAME_NONE) {
	case NAME_NONE:
		return true;
	case NAME_NAME:
		what = "params.name";
		body = msg->rpc->name;
		break;
	case NAME_URI:
		what = "params.uri";
		body = msg->rpc->uri;
		break;
	case NAME_TASK:
		what = "params.taskId";
		body = msg->rpc->task_id;
		break;
	}
	if (msg->http->name && (!rpc_is(body, '"') || header_is(msg->http->name, body)))
		return true;
	rpc_error_init(e, FAULT_HEADER, msg->http->name ? "Mcp-Name is not %s" : "Mcp-Name is missing, not %s",
		       what);
	return false;
}

static bool check_version(const char *claim, struct rpc_error *e)
{
	enum rev rev = rev_find(claim, strlen(claim));

	if (rev != REV_COUNT && rev_table[rev].era == ERA_MODERN)
		return true;
	rpc_error_version(e, claim);
	return false;
}

static bool read_caps(struct mcp_req *req, const struct mcp_msg *msg, struct rpc_error *e)
{
	json_t *caps = NULL;

	if (jx_parse_scanned(msg->meta.caps.p, msg->meta.caps.len, &caps, NULL) < 0) {
		rpc_error_init(e, FAULT_ENVELOPE, KEY "clientCapabilities cannot be read");
		return false;
	}
	req->caps = caps_from_json(caps);
	json_decref(caps);
	return true;
}

bool mcp_gate(struct mcp_req *req, const struct mcp_msg *msg)
{
	char claim[CLAIM_SIZE];
	struct rpc_error e;

	if (check_meta(msg, &e)) {
		(void)rpc_string(msg->meta.claim, claim, sizeof claim, NULL);   /* check_meta saw a string */
		if (check_log_level(req, msg, &e) &&
		    (!msg->http || check_version_and_method(msg, claim, &e)) && check_version(claim, &e) &&
		    (!msg->http || check_name(msg, &e)) && read_caps(req, msg, &e))
			return true;
	}
	req_fault(req, &e);
	return false;
}
