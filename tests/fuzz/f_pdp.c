/* Fuzz target: what policy decision points answer, and what of it may be kept.  Only an object with the decision true
 * allows, whatever stands around it; what is told to callers has no character that acts; where one is asked is on the
 * server that was named. */

#include "config.h"

#include <string.h>
#include <strings.h>

#include "../../src/pdp/pdp_int.h"
#include "base/mem.h"
#include "fuzz.h"
#include "json/json.h"

static const char sent_text[] = "{\"subject\":{\"type\":\"identity\",\"id\":\"bot\"},\"action\":{\"name\":\"tools/call\"},"
	"\"resource\":{\"type\":\"tool\",\"id\":\"pay\"},\"context\":{}}";

static void check_text(const char *text)
{
	for (; *text; text++)
		FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_answer(const char *p, size_t len)
{
	const struct pdp_sent sent = { "id", sent_text, strlen(sent_text), "/context/reason_user/403" };
	struct pdp_reply r = { 200, "application/json", "id", NULL, NULL, p, len };
	struct pdp_meaning m, other;
	json_t *v = NULL;

	pdp_read_answer(&r, &sent, &m);
	FUZZ_CHECK(m.word == PDP_ALLOW || m.word == PDP_DENY || m.word == PDP_NONE);
	check_text(m.why);
	check_text(m.reason);
	FUZZ_CHECK(m.word != PDP_NONE || *m.why);
	if (m.word != PDP_NONE) {
		FUZZ_CHECK(len <= PDP_ANSWER_MAX && jx_parse(p, len, &v, NULL) == 0);
		FUZZ_CHECK(json_is_boolean(json_object_get(v, "decision")));
		FUZZ_CHECK(json_is_true(json_object_get(v, "decision")) == (m.word == PDP_ALLOW));
		json_decref(v);
	}
	for (r.status = 100; r.status < 600; r.status += r.status == 199 || r.status == 200 ? 1 : 33) {
		pdp_read_answer(&r, &sent, &other);
		FUZZ_CHECK(other.word == (r.status == 200 ? m.word : PDP_NONE));
	}
	r = (struct pdp_reply){ 200, "application/json", "another", NULL, NULL, p, len };
	pdp_read_answer(&r, &sent, &other);
	FUZZ_CHECK(other.word == PDP_NONE);
}

static void check_metadata(const char *p, size_t len)
{
	struct str endpoint = STR_INIT;

	if (pdp_read_metadata(p, len, "https://pdp.example.com", &endpoint, NULL) == 0)
		FUZZ_CHECK(strncasecmp(str_text(&endpoint), "https://pdp.example.com", 23) == 0);
	str_fini(&endpoint);
}

static uint64_t age_of(const char *cache, const char *age)
{
	static const char body[] = "{\"decision\":true}";
	const struct pdp_sent sent = { "id", sent_text, strlen(sent_text), NULL };
	const struct pdp_reply r = { 200, "application/json", NULL, cache, age, body, strlen(body) };
	struct pdp_meaning m;

	pdp_read_answer(&r, &sent, &m);
	FUZZ_CHECK(m.word == PDP_ALLOW);
	return m.max_age_s;
}

FUZZ_TARGET(pdp)
{
	char *text = mem_strndup((const char *)data, size);
	const uint64_t age = age_of(text, NULL);

	FUZZ_CHECK(age <= 31536000 && (age == 0 || strpbrk(text, "mM")));
	FUZZ_CHECK(age_of(text, "1000") <= age);
	free(text);
	check_answer((const char *)data, size);
	check_metadata((const char *)data, size);
	return 0;
}
