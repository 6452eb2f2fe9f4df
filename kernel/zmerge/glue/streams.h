/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ZM_STREAMS_H
#define ZM_STREAMS_H

#include "zmerge.h"

struct zm_writer {
	struct mutex lock;	/* one user of the buffers at a time */
	void *bytes;		/* two pages: a codec may make more of a page than it was */
	void *work;
};

struct zm_reader {
	spinlock_t lock;	/* one user of the buffers at a time */
	void *page;		/* for a page that is only compared; NULL where the codec compares */
	void *copy;		/* for an object that lies in two pages; NULL where zsmalloc maps those */
	void *work;
};

#define ZM_WRITER_ROOM	(2 * PAGE_SIZE)

#endif
