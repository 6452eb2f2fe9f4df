/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core's operations for user space: objects are malloc()ed and counted. Any misuse of an
 * operation fails the test at once. The codec is one of codec_*.c.
 */
#ifndef ZM_FAKE_H
#define ZM_FAKE_H

#include "../core/core.h"

#define FAKE_HUGE_LEN ((u32)(PAGE_SIZE - PAGE_SIZE / 8))

struct fake {
	atomic64_t objects;
	atomic64_t bytes;
	const void *page;	/* the page for which room was last requested */
	u64 memory;		/* bytes of objects beyond which allocations fail; 0: all succeed */
	u64 limit;		/* the device's memory limit in bytes; 0: none */
	u64 room;		/* bytes left for anything but objects, plus 1; 0: no limit */
	bool shy;		/* allocations without waiting fail */
};

struct zm_reader {
	u8 page[PAGE_SIZE];
};

struct zm_writer {
	u8 bytes[2 * PAGE_SIZE];
};

/* Called whenever an object was loaded, while its reader is held: simulates another CPU. */
extern void (*fake_loaded)(void);

/* Makes every @n-th allocation of the core fail; 0: none. */
void fake_refuse(unsigned int n);

/* Bytes allocated by the core: now, and the maximum since the last call. */
u64 fake_memory(void);
u64 fake_memory_most(void);

/* Whether this thread holds a reader or a writer. */
bool fake_is_busy(void);

/* The content of a slot, while nobody uses the device: no slot may be locked. */
struct zm_slot fake_slot(struct zm_core *zm, u64 number);

/*
 * Checks the invariants that hold while nobody uses the device: sums against the slots, no leaks.
 */
void fake_check(struct zm_core *zm, struct fake *fake);

#define CHECK(x) do { if (!(x)) ZM_DIE("%s:%d: not so: %s", __FILE__, __LINE__, #x); } while (0)

#endif
