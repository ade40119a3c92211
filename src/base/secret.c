/* Locked memory for keys, comparison and wiping, key derivation, and the process-wide precautions. */

#include "config.h"

#include "base/crypto.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <sodium.h>

#include "base/err.h"
#include "base/log.h"

/* LeakSanitizer attaches to its own process, which an undumpable one refuses. */
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

enum { ALIGN = 16 };            /* sodium_malloc() aligns the end of a piece, not its start */

void *secret_alloc(size_t n)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	void *p;

	if (n > SIZE_MAX - ALIGN)
		n = SIZE_MAX - ALIGN;   /* fails below */
	n = (n + ALIGN) / ALIGN * ALIGN;
	p = sodium_malloc(n);
	if (!p) {
		log_err(NULL, "out of memory for secrets bytes=%zu", n);
		abort();
	}
	/* sodium_malloc() does not say whether it could lock; locks do not nest, so ask again. */
	if (sodium_mlock(p, n) != 0 && !atomic_flag_test_and_set(&warned))
		log_warn(NULL, "cannot lock memory of keys, it may reach swap: raise RLIMIT_MEMLOCK");
	memset(p, 0, n);
	return p;
}

void secret_free(void *p)
{
	sodium_free(p);
}

void secret_wipe(void *p, size_t n)
{
	sodium_memzero(p, n);
}

bool secret_equal(const void *a, const void *b, size_t n)
{
	return sodium_memcmp(a, b, n) == 0;
}

void secret_derive(const uint8_t master[SECRET_KEY_SIZE], const char *purpose, uint8_t ret[SECRET_KEY_SIZE])
{
	crypto_generichash(ret, SECRET_KEY_SIZE, (const unsigned char *)purpose, strlen(purpose), master,
			   SECRET_KEY_SIZE);
}

int secret_init(void)
{
	static const struct rlimit none = { 0, 0 };

	if (sodium_init() < 0)
		return ERR_INTERNAL;
	if (setrlimit(RLIMIT_CORE, &none) != 0)
		return ERR_INTERNAL;
	if (!UNDER_ASAN && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return ERR_INTERNAL;
	return 0;
}
