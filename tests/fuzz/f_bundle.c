/* Bundles of the audit.  The first byte says how the rest is packed: 't', a tar as it is; 'p', the five members, separated by
 * the byte 1e, with the digests that the manifest needs; 'r', the bytes of a record, in a bundle of one. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/bundle.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"

#include "fuzz.h"

#define BLOCK 512

static const char *const names[] = { "records.jsonl", "tree.json", "notes.json", "epochs.json", "manifest.json" };
struct part { const uint8_t *p; size_t n; };

static void ignore(void *arg, const struct audit_finding *f)
{
	(void)arg;
	if (!audit_finding_name(f->code) || f->from > f->to)
		abort();
}

static void verify(const void *p, size_t n)
{
	struct audit_coverage sum;
	struct audit_bundle b;
	struct err err;
	FILE *f = n > 0 ? fmemopen((void *)(uintptr_t)p, n, "rb") : NULL;

	if (!f)
		return;
	if (audit_bundle_verify(f, NULL, ignore, NULL, &b, &sum, &err) == 0 && sum.bad == 0 && b.to <= b.from)
		abort();
	fclose(f);
}

static void put_member(struct str *tar, unsigned i, const void *p, size_t n)
{
	char head[BLOCK] = { 0 };
	unsigned sum = 0;

	(void)snprintf(head, 100, "%s", names[i]);
	(void)snprintf(head + 124, 12, "%011zo", n);
	head[156] = '0';
	memcpy(head + 257, "ustar\00000", 8);
	memset(head + 148, ' ', 8);
	for (size_t k = 0; k < BLOCK; k++)
		sum += (unsigned char)head[k];
	(void)snprintf(head + 148, 7, "%06o", sum);
	str_put(tar, head, BLOCK);
	str_put(tar, p, n);
	while (tar->len % BLOCK != 0)
		str_putc(tar, '\0');
}

/* The manifest, whose first brace is followed by the digests of the others. */
static void put_manifest(struct str *tar, const struct part part[5])
{
	struct str text = STR_INIT;

	str_puts(&text, "{\"sha256\":{");
	for (unsigned i = 0; i < 4; i++) {
		uint8_t digest[DIGEST_SIZE];
		char hex[2 * DIGEST_SIZE + 1];

		digest_sha256(part[i].p, part[i].n, digest);
		text_hex(digest, sizeof digest, hex);
		str_printf(&text, "%s\"%s\":\"%s\"", i ? "," : "", names[i], hex);
	}
	str_puts(&text, "}");
	str_puts(&text, part[4].n > 0 ? "," : "");
	str_put(&text, part[4].p, part[4].n);
	put_member(tar, 4, text.p, text.len);
	str_fini(&text);
}

static void verify_parts(const struct part part[5])
{
	struct str tar = STR_INIT;

	for (unsigned i = 0; i < 4; i++)
		put_member(&tar, i, part[i].p, part[i].n);
	put_manifest(&tar, part);
	verify(tar.p, tar.len);
	str_fini(&tar);
}

static void verify_record(const uint8_t *p, size_t n)
{
	static const char tree[] = "{\"start\":{\"size\":0,\"root\":\"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\",\"frontier\":[]},"
		"\"end\":{\"size\":1,\"root\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\","
		"\"frontier\":[\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]}}";
	static const char manifest[] = "\"format\":\"toolcrib bundle 1\",\"origin\":\"o\",\"from\":0,\"to\":1,\"records\":1}";
	char *b64 = mem_alloc(text_base64_size(n));
	struct str line = STR_INIT;

	text_base64(p, n, b64);
	str_printf(&line, "{\"idx\":0,\"bytes\":\"%s\",\"view\":{}}\n", b64);
	verify_parts((struct part[]){ { (const uint8_t *)line.p, line.len }, { (const uint8_t *)tree, sizeof tree - 1 },
		{ (const uint8_t *)"[]", 2 }, { (const uint8_t *)"[]", 2 }, { (const uint8_t *)manifest, sizeof manifest - 1 } });
	str_fini(&line);
	free(b64);
}

FUZZ_TARGET(bundle)
{
	struct part part[5] = { { NULL, 0 } };

	if (size == 0)
		return 0;
	if (data[0] == 't')
		verify(data + 1, size - 1);
	if (data[0] == 'r')
		verify_record(data + 1, size - 1);
	if (data[0] != 'p')
		return 0;
	data++;
	size--;
	for (unsigned i = 0; i < 5; i++) {
		const uint8_t *end = memchr(data, 0x1e, size);

		part[i] = (struct part){ data, end ? (size_t)(end - data) : size };
		if (!end)
			break;
		size -= part[i].n + 1;
		data = end + 1;
	}
	verify_parts(part);
	return 0;
}
