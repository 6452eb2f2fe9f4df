/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the core takes from its surroundings: types, spinlocks, atomics, memory.
 *
 * In the kernel that is the kernel; in user space user/port_user.h offers the same names.
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

/* For what a device is made of: who asks for it is told by an error, not by the kernel's log. */
#define ZM_GFP_SETUP (GFP_KERNEL | __GFP_NOWARN)

/*
 * The index may grow while memory is being freed by swapping: it takes what is there at once,
 * leaves the reserves alone, and says nothing when there is none.
 */
#define ZM_GFP_INDEX (GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC)

/*
 * For the request pass, which may wait, but not for I/O: it may be this device that swaps. Its table is
 * smaller where that much is not there, so nobody is killed for it.
 */
#define ZM_GFP_PASS (GFP_NOIO | __GFP_NOWARN)
#define ZM_GFP_TABLE (ZM_GFP_PASS | __GFP_NORETRY)

#endif
