#ifndef BASE_SANITIZED_H
#define BASE_SANITIZED_H

/* 1 in a build with a sanitizer of addresses, memory or threads, else 0: for what such a build cannot do.  A sanitizer
 * starts processes, traces its own and reserves more addresses than any bound would leave: no filter on system calls,
 * no bound of memory, no process that nobody may look into. */
#ifdef __has_feature
#define SANITIZED_BY(what) __has_feature(what)
#else
#define SANITIZED_BY(what) 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || \
	SANITIZED_BY(address_sanitizer) || SANITIZED_BY(memory_sanitizer) || SANITIZED_BY(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
/* The same for a build that writes what has run, wherever it was built: it opens any file. */
#ifndef COVERAGE
#define COVERAGE 0
#endif

#endif
