/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the core needs from its environment: types, spinlocks, atomics, memory.
 *
 * In the kernel these are the kernel's own; in user space user/port_user.h defines the same names.
 */
#ifndef ZM_PORT_H
#define ZM_PORT_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/vmalloc.h>
#include <linux/wait_bit.h>
#else
#include "../user/port_user.h"
#endif

/* For the parts of a device. No warning in the log: the caller gets an error. */
#define ZM_GFP_SETUP (GFP_KERNEL | __GFP_NOWARN)

/*
 * The index may have to grow while swapping frees memory, so it takes only memory that is available
 * at once, leaves the reserves alone, and logs no warning.
 */
#define ZM_GFP_INDEX (GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC)

/*
 * For the pass on request, which may sleep, but not wait for I/O, because swap may be on this
 * device. NORETRY: no process is killed for it, and the pass does not wait for memory for as long
 * as there is none, which whoever stops it would have to wait for, too. Without memory for the
 * table a smaller one is tried, and without a counter a pair of pages is not merged.
 */
#define ZM_GFP_PASS (GFP_NOIO | __GFP_NOWARN | __GFP_NORETRY)

#endif
