/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libhugepool - memory pools in whole huge pages
 *
 * A pool is for objects with similar lifetimes: use one pool for long-lived objects and another one
 * for short-lived objects. Any thread may call any function on the same pool. Functions that can
 * fail return a hugepool_result; none ends the process, none sets errno.
 *
 * PAGEWISE_THP in the environment controls huge pages for the whole process:
 *	on	MADV_HUGEPAGE; each huge page is populated when it is mapped, checked, else collapsed
 *	advised	MADV_HUGEPAGE; page faults and khugepaged decide
 *	off	MADV_NOHUGEPAGE
 * If it is not set: off if the machine's setting is never, on otherwise. If the kernel provides no
 * huge page, that is not an error: hugepool_statistics() counts it in `small`, with the reason in
 * `huge_errno`.
 */
#ifndef HUGEPOOL_H
#define HUGEPOOL_H

#include "hugepool_coverage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Valid from hugepool_create() until hugepool_destroy(). */
typedef struct hugepool hugepool;

typedef struct hugepool_options {
	size_t size;   /* sizeof(hugepool_options) */
	size_t limit;  /* the most bytes that are mapped; 0: no limit */
	size_t retain; /* bytes of empty huge pages that are kept instead of returned */
	int thp;       /* -1: PAGEWISE_THP and the machine decide; 0 off; 1 on; 2 advised */
	int fork;      /* 0: a child by fork() has a copy; 1: it has nothing (MADV_DONTFORK) */
	int checks;    /* 1: each release is checked, slower; 0: not; -1: in debug builds alone */
} hugepool_options;

/* For long-lived objects: a huge page without blocks in use is returned at once. */
#define HUGEPOOL_LONG_LIVED { sizeof(hugepool_options), 0, 0, -1, 0, -1 }
/* For short-lived objects: 32 MiB of empty huge pages are kept for later allocations. */
#define HUGEPOOL_SHORT_LIVED { sizeof(hugepool_options), 0, 32u << 20, -1, 0, -1 }

/*
 * Creates a pool; NULL options mean HUGEPOOL_LONG_LIVED. Memory is mapped only by the first
 * allocation.
 *
 * HUGEPOOL_SWITCH: PAGEWISE_THP has an invalid value, and options->thp is -1.
 */
int hugepool_create(const hugepool_options *options, hugepool **out);

/*
 * Returns all memory of @pool to the kernel, including blocks in use. NULL is ignored.
 *
 * No other thread may use @pool any more. Free blocks of it that threads have cached are discarded.
 */
void hugepool_destroy(hugepool *pool);

/*
 * Allocates a block of at least @size bytes at a multiple of @alignment (0: 16).
 *
 * On HUGEPOOL_OK, *@out is yours until you release it. It contains old data of an earlier block, or
 * zeros.
 * HUGEPOOL_ZERO_SIZE, HUGEPOOL_ALIGNMENT, HUGEPOOL_TOO_LARGE, HUGEPOOL_LIMIT,
 * HUGEPOOL_OUT_OF_MEMORY, HUGEPOOL_FORKED.
 *
 * If the machine or a memory cgroup is out of memory, the kernel may kill a process when memory is
 * first used, as with any memory: set options.limit to get an error before that.
 */
int hugepool_allocate(hugepool *pool, size_t size, size_t alignment, void **out);

/*
 * Releases a block of @pool; NULL is ignored.
 *
 * HUGEPOOL_FOREIGN: the block is not from this pool, or was already returned to the kernel. With
 * options.checks also HUGEPOOL_DOUBLE_RELEASE and HUGEPOOL_WRONG_BLOCK. Without checks, these two
 * are detected at once only for blocks above 16 KiB; smaller ones are counted in
 * hugepool_statistics.wrong_releases later, and until then a block that was released twice may be
 * allocated twice.
 */
int hugepool_release(hugepool *pool, void *block);

/* The same, faster: @size and @alignment are those of the allocation. Without checks, a small block
 * of another pool is counted in wrong_releases as well, instead of refused. */
int hugepool_release_sized(hugepool *pool, void *block, size_t size, size_t alignment);

/* The usable bytes of @block, at least the requested size. */
int hugepool_usable_size(const hugepool *pool, const void *block, size_t *out);

/* Returns the retained empty huge pages to the kernel, and answers how many bytes. Free blocks that
 * other threads keep stay. */
size_t hugepool_trim(hugepool *pool);

/* Has the kernel copy all of @pool into huge pages (MADV_COLLAPSE, Linux 6.1), for instance after a
 * fork(), and answers the bytes for which it did not. Nothing is done if the switch is off. */
size_t hugepool_collapse(hugepool *pool);

/* Bytes, if nothing else is said. Blocks count with their size class. */
typedef struct hugepool_stats {
	uint64_t huge_page;      /* the size of a huge page */
	uint64_t mapped;         /* address space of the pool: huge + small + unchecked */
	uint64_t retained;       /* of it in empty huge pages */
	uint64_t huge;           /* was in huge pages when mapped or collapsed */
	uint64_t small;          /* in small pages: refused by the kernel, or switched off */
	uint64_t unchecked;      /* advised: see hugepool_pool_coverage() */
	uint64_t live;           /* blocks in use */
	uint64_t live_blocks;    /* their number */
	uint64_t allocations;    /* number, since the pool was created */
	uint64_t releases;       /* number, since the pool was created */
	uint64_t out_of_memory;  /* number of times that the kernel refused memory */
	uint64_t wrong_releases; /* number of releases of what was no block in use */
	int huge_errno;          /* why the kernel last gave no huge page; 0: it never refused */
	int thp;                 /* the switch: 0 off, 1 on, 2 advised */
} hugepool_stats;

int hugepool_statistics(const hugepool *pool, hugepool_stats *out);

/* How much of @pool is resident and in huge pages now, as the kernel says it; growth is 0. */
int hugepool_pool_coverage(const hugepool *pool, hugepool_coverage *out);

/*
 * A fixed number of large blocks, all mapped when the table is created (and populated, if the switch
 * is on), so a shortage of memory is reported then. If a program with several threads calls fork(),
 * the child must not acquire or release blocks.
 */
typedef struct hugepool_table hugepool_table;

/* @block is rounded up to a multiple of 4096; @thp as in hugepool_options. */
int hugepool_table_create(size_t block, size_t count, int thp, hugepool_table **out);
void hugepool_table_destroy(hugepool_table *table);
/* HUGEPOOL_FULL: none is free. */
int hugepool_table_acquire(hugepool_table *table, void **out);
/* HUGEPOOL_FOREIGN, HUGEPOOL_WRONG_BLOCK, HUGEPOOL_DOUBLE_RELEASE. */
int hugepool_table_release(hugepool_table *table, void *block);
int hugepool_table_coverage(const hugepool_table *table, hugepool_coverage *out);

#ifdef __cplusplus
}
#endif

#endif
