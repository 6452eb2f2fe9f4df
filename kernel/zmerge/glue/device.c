// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of a device: added, set up with its size, merged, reset, removed.
 *
 * Before it is reset or removed, a device is claimed, which fails while it is open and prevents it
 * from being opened or set up. So there is no I/O while the structures that I/O uses are created or
 * freed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/random.h>
#include <linux/sched/mm.h>

#include "zmerge.h"

static int zm_claim(struct zm_device *device)
{
	int err = 0;

	mutex_lock(&device->gate);
	if (device->openers || device->claimed)
		err = -EBUSY;
	else
		WRITE_ONCE(device->claimed, true);
	mutex_unlock(&device->gate);
	if (err)
		zm_say(device, "in use: swap it off or unmount it first");
	return err;
}

static void zm_unclaim(struct zm_device *device)
{
	mutex_lock(&device->gate);
	WRITE_ONCE(device->claimed, false);
	mutex_unlock(&device->gate);
}

static void zm_notify(struct zm_device *device)
{
	sysfs_notify(&disk_to_dev(device->disk)->kobj, NULL, "merge");
}

/*
 * Sleeps for as long as the slots since the last call take at the requested rate; a rest of less
 * than a tick is carried over to the next call. Stopping the pass or changing the rate takes effect
 * within a tenth of a second.
 */
static void zm_throttle(struct zm_device *device)
{
	unsigned long begin = jiffies, wait;
	unsigned int rate;

	device->merge_owed += ZM_PASS_STEP * HZ;
	while ((rate = atomic_read(&device->merge_rate)) && !atomic_read(&device->core.pass_stop)) {
		wait = div_u64(device->merge_owed, rate);
		if (!time_before(jiffies, begin + wait)) {
			device->merge_owed -= (u64)wait * rate;
			return;
		}
		schedule_timeout_idle(min_t(unsigned long, HZ / 10, wait));
	}
	device->merge_owed = 0;
}

static void zm_progress(void *ctx)
{
	zm_notify(ctx);
	zm_throttle(ctx);
}

static void zm_merge_work(struct work_struct *work)
{
	struct zm_device *device = container_of(work, struct zm_device, merge_work);
	unsigned int noio = memalloc_noio_save();
	int err;

	device->merge_owed = 0;
	err = zm_merge(&device->core, zm_progress, device);
	if (!err && device->merge_compacts)
		zs_compact(device->pool);
	memalloc_noio_restore(noio);
	if (err && err != -EINTR)
		zm_say(device, "merging ended early: error %d", err);
	atomic_set(&device->merging, 0);
	zm_notify(device);
}

static void zm_compact_work(struct work_struct *work)
{
	zs_compact(container_of(work, struct zm_device, compact_work)->pool);
}

/* Starts a pass over the device; the caller holds init_lock. */
int zm_device_merge(struct zm_device *device, bool compacts)
{
	lockdep_assert_held(&device->init_lock);
	if (!device->ready)
		return -EINVAL;
	if (device->mode == ZM_OFF)
		return -EOPNOTSUPP;
	if (atomic_xchg(&device->merging, 1))
		return -EBUSY;
	device->merge_compacts = compacts;
	atomic64_set(&device->core.pass_at, 0);
	atomic_set(&device->core.pass_stop, 0);
	queue_work(zm_workqueue, &device->merge_work);
	return 0;
}

/*
 * The number of slots that the pass still has to read; 0 if none runs and compaction is done, too.
 */
u64 zm_device_merge_left(struct zm_device *device)
{
	if (!device->ready || !atomic_read(&device->merging))
		return 0;
	return device->core.nslots - atomic64_read(&device->core.pass_at);
}

/*
 * Stops a running pass, and waits for its end. The pass does not take init_lock, and no pass can
 * start while that is held for writing. A compaction that has begun is completed.
 */
void zm_device_stop_merge(struct zm_device *device)
{
	lockdep_assert_held_write(&device->init_lock);
	atomic_set(&device->core.pass_stop, 1);
	cancel_work_sync(&device->merge_work);
	if (atomic_xchg(&device->merging, 0))
		zm_notify(device);
}

/* At its next step, a running pass frees the memory by which it exceeds the new limit. */
void zm_device_set_budget(struct zm_device *device, u64 bytes)
{
	lockdep_assert_held(&device->init_lock);
	atomic64_set(&device->merge_budget, bytes);
	atomic64_set(&device->core.pass_budget, bytes);
}

static void zm_teardown(struct zm_device *device)
{
	lockdep_assert_held_write(&device->init_lock);
	if (!device->ready)
		return;
	device->ready = false;
	set_capacity(device->disk, 0);
	zm_shrinker_remove(device);
	cancel_work_sync(&device->compact_work);
	zm_destroy(&device->core);
	zm_streams_destroy(&device->streams);
	zs_destroy_pool(device->pool);
	device->pool = NULL;
	memset(&device->core, 0, sizeof(device->core));
}

static int zm_setup_parts(struct zm_device *device, u64 slots)
{
	int err;

	device->pool = zs_create_pool(device->disk->disk_name);
	if (!device->pool)
		return -ENOMEM;
	err = zm_streams_init(&device->streams, device->codec, device->level);
	if (err)
		goto destroy_pool;
	err = zm_init(&device->core, slots, device,
		      min_t(size_t, zs_huge_class_size(device->pool), PAGE_SIZE), get_random_u64());
	if (err)
		goto destroy_streams;
	if (device->by_cgroup)
		err = zm_use_domains(&device->core);
	if (!err)
		err = zm_shrinker_add(device);
	if (err)
		goto destroy_core;
	zm_set_mode(&device->core, device->mode);
	atomic64_set(&device->core.pass_budget, atomic64_read(&device->merge_budget));
	return 0;

destroy_core:
	zm_destroy(&device->core);
destroy_streams:
	zm_streams_destroy(&device->streams);
destroy_pool:
	zs_destroy_pool(device->pool);
	device->pool = NULL;
	return err;
}

/*
 * Whether a table of this many slots can be allocated at all: if not, the kernel would print a
 * warning with a stack trace.
 */
static bool zm_table_fits(u64 slots)
{
	struct sysinfo memory;

	si_meminfo(&memory);
	return slots <= U32_MAX && slots * sizeof(struct zm_entry) / PAGE_SIZE < memory.totalram / 2;
}

/*
 * Makes the device a disk of @bytes, rounded up to a page; the caller holds init_lock for writing.
 */
int zm_device_setup(struct zm_device *device, u64 bytes)
{
	u64 slots = DIV_ROUND_UP_ULL(bytes, PAGE_SIZE);
	int err;

	lockdep_assert_held_write(&device->init_lock);
	if (device->ready || READ_ONCE(device->claimed))
		return -EBUSY;
	if (!slots || bytes > U64_MAX - PAGE_SIZE)
		return -EINVAL;
	err = zm_table_fits(slots) ? zm_setup_parts(device, slots) : -ENOMEM;
	if (err)
		return err;
	device->ready = true;
	set_capacity_and_notify(device->disk, slots * (PAGE_SIZE >> SECTOR_SHIFT));
	return 0;
}

static void zm_defaults(struct zm_device *device)
{
	device->codec = zm_codec_default();
	device->level = device->codec->level;
	device->mode = ZM_REQUEST;
	device->by_cgroup = false;
	atomic64_set(&device->merge_budget, ZM_BUDGET);
	atomic_set(&device->merge_rate, 0);
	atomic_long_set(&device->limit_pages, 0);
	atomic_long_set(&device->max_pages, 0);
	device->compacted_at = jiffies - HZ;
	atomic64_set(&device->failed_reads, 0);
	atomic64_set(&device->failed_writes, 0);
	atomic64_set(&device->invalid_io, 0);
	atomic64_set(&device->notify_free, 0);
}

/* Resets a claimed device: all its data and settings are lost. */
static void zm_reset_claimed(struct zm_device *device)
{
	sync_blockdev(device->disk->part0);
	down_write(&device->init_lock);
	zm_device_stop_merge(device);
	zm_teardown(device);
	zm_defaults(device);
	up_write(&device->init_lock);
}

int zm_device_reset(struct zm_device *device)
{
	int err = zm_claim(device);

	if (err)
		return err;
	zm_reset_claimed(device);
	zm_unclaim(device);
	return 0;
}

static struct zm_device *zm_device_alloc(int id)
{
	struct zm_device *device = kzalloc(sizeof(*device), GFP_KERNEL);

	if (!device)
		return NULL;
	device->id = id;
	mutex_init(&device->gate);
	init_rwsem(&device->init_lock);
	INIT_WORK(&device->merge_work, zm_merge_work);
	INIT_WORK(&device->compact_work, zm_compact_work);
	zm_defaults(device);
	return device;
}

struct zm_device *zm_device_add(int id)
{
	struct zm_device *device = zm_device_alloc(id);
	int err = -ENOMEM;

	if (!device)
		return ERR_PTR(err);
	device->disk = zm_disk_alloc(device);
	if (!device->disk)
		goto free_device;
	err = device_add_disk(NULL, device->disk, zm_disk_groups);
	if (err)
		goto put_disk;
	return device;

put_disk:
	put_disk(device->disk);
free_device:
	kfree(device);
	return ERR_PTR(err);
}

/* Fails while the device is open. */
int zm_device_remove(struct zm_device *device)
{
	int err = zm_claim(device);

	if (err)
		return err;
	zm_reset_claimed(device);
	del_gendisk(device->disk);
	put_disk(device->disk);
	kfree(device);
	return 0;
}
