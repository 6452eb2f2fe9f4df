/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ZM_STREAMS_H
#define ZM_STREAMS_H

#include <linux/cache.h>

#include "zmerge.h"

struct zm_writer {
	struct mutex lock;	/* one user of the buffers at a time */
	bool ready;		/* its CPU is online */
	void *bytes;		/* two pages: compression may enlarge a page */
	void *work;
};

struct zm_reader {
	struct mutex lock;	/* one user of the buffers at a time */
	bool ready;		/* its CPU is online */
	/*
	 * All three are NULL if neither the codec nor zsmalloc needs one: then the lock is never
	 * taken.
	 */
	void *page;		/* for decompressing to compare; NULL if the codec compares */
	void *copy;		/* for an object that spans two pages; NULL if zsmalloc maps it */
	void *work;
};

/*
 * The stream of one CPU. Writer and reader share no cache line with each other or with other CPUs.
 */
struct zm_stream {
	struct zm_writer writer ____cacheline_aligned_in_smp;
	struct zm_reader reader ____cacheline_aligned_in_smp;
};

#define ZM_WRITER_ROOM	(2 * PAGE_SIZE)

/* The writer of the current CPU, or of the CPU on which the task has just been running. */
static inline struct zm_writer *zm_writer_get(struct zm_streams *streams)
{
	struct zm_writer *writer;

	for (;;) {
		writer = &raw_cpu_ptr(streams->cpus)->writer;
		mutex_lock(&writer->lock);
		if (likely(writer->ready))
			return writer;
		mutex_unlock(&writer->lock);
	}
}

static inline struct zm_reader *zm_reader_get(struct zm_streams *streams)
{
	struct zm_reader *reader;

	for (;;) {
		reader = &raw_cpu_ptr(streams->cpus)->reader;
		if (!streams->readers_lock)
			return reader;
		mutex_lock(&reader->lock);
		if (likely(reader->ready))
			return reader;
		mutex_unlock(&reader->lock);
	}
}

static inline void zm_reader_put(struct zm_streams *streams, struct zm_reader *reader)
{
	if (streams->readers_lock)
		mutex_unlock(&reader->lock);
}

#endif
