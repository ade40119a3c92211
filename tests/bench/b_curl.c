/* A plain loop of libcurl's multi interface: so many GETs of one URL at once, each again when it is done.  The limit that
 * `make bench` holds http tools against.  Usage: b_curl URL CONNECTIONS SECONDS; prints one JSON line. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <curl/curl.h>

#include "base/clock.h"

static unsigned long long done, failed;

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	return size * n;
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void collect(CURLM *multi)
{
	int left;
	const CURLMsg *msg;

	while ((msg = curl_multi_info_read(multi, &left)) != NULL) {
		CURL *easy = msg->easy_handle;

		if (msg->data.result == CURLE_OK)
			done++;
		else
			failed++;
		curl_multi_remove_handle(multi, easy);
		curl_multi_add_handle(multi, easy);
	}
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: b_curl URL CONNECTIONS SECONDS\n");
		return 2;
	}
	int running, n = (int)strtol(argv[2], NULL, 10);
	double secs = strtod(argv[3], NULL);
	CURLM *multi = curl_multi_init();

	for (int i = 0; i < n; i++) {
		CURL *easy = curl_easy_init();

		curl_easy_setopt(easy, CURLOPT_URL, argv[1]);
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
		curl_multi_add_handle(multi, easy);
	}
	uint64_t begun = clock_mono_us(), end = begun + (uint64_t)(secs * 1e6), now;
	while ((now = clock_mono_us()) < end) {
		curl_multi_perform(multi, &running);
		collect(multi);
		curl_multi_poll(multi, NULL, 0, 100, NULL);
	}
	printf("{\"label\": \"plain libcurl loop\", \"conns\": %d, \"per_s\": %.0f, \"cpu_us\": %.1f, \"failed\": %llu}\n", n,
	       (double)done * 1e6 / (double)(now - begun), cpu_us() / (double)done, failed);
	return failed > 0;
}
