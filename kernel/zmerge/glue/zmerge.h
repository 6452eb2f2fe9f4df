/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core in the kernel: a disk, its objects in zsmalloc, its codecs, its sysfs files.
 *
 * Lock order, outermost first:
 *	zm_devices_lock		mutex	the list of devices
 *	device->gate		mutex	how often the disk is open, and whether it may be opened
 *	device->init_lock	rwsem	setup of the device; held for read by sysfs files that need it
 *	cpu_hotplug_lock	rwsem	which CPUs have streams (streams.c)
 *	writer->lock		mutex	one compression; no memory is waited for under it
 *	the core's			see core/core.h
 *	reader->lock		mutex	one decompression
 *
 * I/O takes no lock of this list except writer->lock, reader->lock and the core's: a device is set
 * up and reset only while it is not open.
 */
#ifndef ZM_GLUE_H
#define ZM_GLUE_H

#include <linux/blkdev.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/shrinker.h>
#include <linux/workqueue.h>
#include <linux/zsmalloc.h>

#include "../core/core.h"
#include "features.h"

/* A compression algorithm. The meaning of levels depends on it. */
struct zm_codec {
	const char *name;
	int level, level_min, level_max;
	size_t (*writer_size)(int level);
	size_t (*reader_size)(void);
	/* Initialise the memory of a writer or reader; either may be NULL. */
	int (*writer_init)(void *work, int level);
	int (*reader_init)(void *work);
	/*
	 * Returns the number of bytes written to @to; -ENOSPC if there is not enough room, or
	 * another error.
	 */
	int (*compress)(void *work, int level, const void *page, void *to, u32 room);
	int (*decompress)(void *work, const void *from, u32 len, void *page);
	/* Whether the bytes would decompress to @page; may be NULL. */
	bool (*equal)(const void *from, u32 len, const void *page);
};

extern const struct zm_codec zm_codec_lz4, zm_codec_zstd, zm_codec_lzo, zm_codec_lzo_rle;

const struct zm_codec *zm_codec_find(const char *name);
const struct zm_codec *zm_codec_default(void);
const struct zm_codec *zm_codec_at(size_t number);
ssize_t zm_codec_list(const struct zm_codec *chosen, char *buf);

/* parse.c */
int zm_parse_size(const char *text, u64 *bytes);
int zm_parse_id(const char *text, int *id);
int zm_parse_params(char *text, const struct zm_codec **codec, int *level, bool *has_level);

/* Buffers for compression and decompression, one set for each CPU. */
struct zm_streams {
	const struct zm_codec *codec;
	int level;
	bool readers_lock;		/* readers have buffers, for one user at a time */
	struct zm_stream __percpu *cpus;
	struct hlist_node node;		/* in the list of CPU hotplug instances */
};

int zm_streams_register(void);
void zm_streams_unregister(void);
int zm_streams_init(struct zm_streams *streams, const struct zm_codec *codec, int level);
void zm_streams_destroy(struct zm_streams *streams);

struct zm_device {
	int id;
	struct gendisk *disk;

	struct mutex gate;		/* protects openers and claimed */
	unsigned int openers;
	bool claimed;			/* being reset or removed: must not be opened */

	struct rw_semaphore init_lock;
	bool ready;			/* from here to the next gap, set under init_lock */
	struct zm_core core;
	struct zs_pool *pool;
	struct zm_streams streams;
#if ZM_HAS_SHRINKER_ALLOC
	struct shrinker *shrinker;
#else
	struct shrinker shrinker;
#endif

	/* Settings, also protected by init_lock. */
	const struct zm_codec *codec;
	int level;
	enum zm_mode mode;
	bool by_cgroup;			/* pages are merged within a memory cgroup only */
	atomic_long_t limit_pages;
	atomic_long_t max_pages;

	struct work_struct compact_work;
	unsigned long compacted_at;	/* jiffies when compact_work was last queued */

	struct work_struct merge_work;
	atomic_t merging;
	bool merge_compacts;
	u64 merge_owed;			/* slots times HZ by which the pass was too fast */
	/* Settings of a pass, which may change while it runs. */
	atomic64_t merge_budget;	/* bytes */
	atomic_t merge_rate;		/* slots per second; 0: unlimited */

	atomic64_t failed_reads, failed_writes, invalid_io, notify_free;
};

/* device.c */
struct zm_device *zm_device_add(int id);
int zm_device_remove(struct zm_device *device);
int zm_device_setup(struct zm_device *device, u64 bytes);
int zm_device_reset(struct zm_device *device);
int zm_device_merge(struct zm_device *device, bool compacts);
void zm_device_stop_merge(struct zm_device *device);
u64 zm_device_merge_left(struct zm_device *device);
void zm_device_set_budget(struct zm_device *device, u64 bytes);

/* shrink.c */
int zm_shrinker_add(struct zm_device *device);
void zm_shrinker_remove(struct zm_device *device);

/* domain.c */
bool zm_domain_known(void);
u32 zm_memcg_domain(struct page *page);

/* Without domains, the page's cgroup is not read. */
static inline u32 zm_domain_of(struct zm_device *device, struct page *page)
{
	return device->core.domains ? zm_memcg_domain(page) : ZM_NO_DOMAIN;
}

/* disk.c */
struct gendisk *zm_disk_alloc(struct zm_device *device);
extern const struct block_device_operations zm_disk_ops;

/* sysfs.c, control.c */
extern const struct attribute_group *zm_disk_groups[];
int zm_control_init(void);
void zm_control_exit(void);

/* main.c */
extern struct mutex zm_devices_lock;
extern struct workqueue_struct *zm_workqueue;
extern int zm_major;
int zm_devices_add(int id);
int zm_devices_remove(int id);
int zm_devices_free_id(void);

#define zm_say(device, format, ...) \
	pr_warn("zmerge%d: " format "\n", (device)->id, ##__VA_ARGS__)

#endif
