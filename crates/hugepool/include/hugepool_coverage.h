/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libhugepool-coverage - how much of the calling process's memory is in huge pages
 *
 * Private anonymous mappings are read: heaps, stacks, pools. Files and shared memory are left out.
 * Any thread may call any function. Each takes 1 to 4 ms for each GiB of small pages, and much less
 * for huge pages, if the kernel has PAGEMAP_SCAN (Linux 6.7); about 12 ms for each GiB otherwise.
 */
#ifndef HUGEPOOL_COVERAGE_H
#define HUGEPOOL_COVERAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of every function. Pointers to results are written only on HUGEPOOL_OK. */
typedef enum hugepool_result {
	HUGEPOOL_OK = 0,
	HUGEPOOL_ZERO_SIZE = 1,      /* a block of 0 bytes was requested */
	HUGEPOOL_ALIGNMENT = 2,      /* no power of two, or larger than a huge page */
	HUGEPOOL_TOO_LARGE = 3,      /* no address space holds so many bytes */
	HUGEPOOL_LIMIT = 4,          /* hugepool_options.limit is reached */
	HUGEPOOL_FULL = 5,           /* all blocks of the table are in use */
	HUGEPOOL_OUT_OF_MEMORY = 6,  /* the kernel refused: RLIMIT_AS, RLIMIT_DATA, overcommit */
	HUGEPOOL_FORKED = 7,         /* a child by fork(), which the pool excludes */
	HUGEPOOL_FOREIGN = 8,        /* not from this pool */
	HUGEPOOL_DOUBLE_RELEASE = 9, /* free already */
	HUGEPOOL_WRONG_BLOCK = 10,   /* inside of a block, or of another size */
	HUGEPOOL_SWITCH = 11,        /* PAGEWISE_THP is none of on, off and advised */
	HUGEPOOL_UNREADABLE = 12,    /* /proc is not mounted or may not be read */
	HUGEPOOL_INVALID = 13,       /* NULL, out of range, or a structure of unknown size */
	HUGEPOOL_INTERNAL = 14,      /* a mistake in this library */
} hugepool_result;

/* A sentence for a result; never NULL, valid for ever. */
const char *hugepool_message(int result);

/* In bytes, except where noted. */
typedef struct hugepool_coverage {
	uint64_t mapped;        /* address space */
	uint64_t eligible;      /* of it in whole huge pages: what could be huge */
	uint64_t resident;      /* in memory */
	uint64_t huge;          /* in huge pages; coverage is huge / resident */
	uint64_t growth;        /* estimate of what is resident only because its neighbours are */
	uint64_t sampled_pages; /* pages in huge pages that were read for the estimate; 0: no estimate */
	uint64_t zero_pages;    /* of these, pages of zeros */
	uint64_t by_scan;       /* 1: read by PAGEMAP_SCAN; 0: from smaps, without an estimate */
} hugepool_coverage;

/*
 * The sums of all private anonymous mappings of this process.
 *
 * About @samples pages in huge pages are read to estimate growth, each about 1 us; 0 reads none.
 */
int hugepool_coverage_process(unsigned samples, hugepool_coverage *out);

/*
 * Receives a mapping; @name and @coverage are valid until it returns. A result other than 0 stops
 * the iteration.
 */
typedef int (*hugepool_mapping_function)(void *context, const char *name, uint64_t start,
					 uint64_t end, const hugepool_coverage *coverage);

/*
 * Calls @function for each private anonymous mapping of this process, in ascending address order.
 *
 * The name is [heap], [stack], [anon:NAME] if prctl(PR_SET_VMA_ANON_NAME) named it, or anonymous.
 * The mappings are read before the first call, so @function may allocate and map memory.
 */
int hugepool_coverage_mappings(unsigned samples, hugepool_mapping_function function, void *context);

/*
 * Writes the sums for each mapping name to @buffer, as zero-terminated text in Prometheus's format.
 *
 * Sets *@needed to the number of bytes of this text. HUGEPOOL_INVALID: @size is smaller; call again
 * with a larger buffer.
 * hugepool_process_{mapped,eligible,resident,huge,growth}_bytes{mapping="NAME"}
 */
int hugepool_coverage_prometheus(unsigned samples, char *buffer, size_t size, size_t *needed);

#ifdef __cplusplus
}
#endif

#endif
