// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block I/O: transfers the pages of requests to and from the core.
 *
 * The logical block size is the page size, so that no page is ever written partially. A page of a
 * request may nevertheless be split over two pages of memory, with direct I/O and stacked drivers:
 * then it is copied through a bounce page.
 */
#include <linux/bio.h>
#include <linux/highmem.h>
#include <linux/pagemap.h>
#include <linux/swap.h>

#include "zmerge.h"

#define ZM_SECTORS	(PAGE_SIZE >> SECTOR_SHIFT)

/*
 * Transfers one page at address @at. @page is the memory that holds it (or part of it), for its
 * memory cgroup.
 */
static inline int zm_page_io(struct zm_device *device, u64 number, void *at, struct page *page, bool write)
{
	int err = write ? zm_write(&device->core, number, at, zm_domain_of(device, page)) :
			  zm_read(&device->core, number, at);

	if (err)
		atomic64_inc(write ? &device->failed_writes : &device->failed_reads);
	return err;
}

static int zm_whole_page(struct zm_device *device, u64 number, struct page *page, bool write)
{
	void *at = kmap_local_page(page);
	int err = zm_page_io(device, number, at, page, write);

	kunmap_local(at);
	if (!write)
		flush_dcache_page(page);
	return err;
}

/* Copies one page of the request, from all its segments, to or from @at. */
static void zm_copy_parts(struct bio *bio, struct bvec_iter *iter, void *at, bool to_bio)
{
	size_t left = PAGE_SIZE;

	while (left) {
		struct bio_vec part = bio_iter_iovec(bio, *iter);
		void *mapped;

		part.bv_len = min_t(size_t, part.bv_len, left);
		mapped = bvec_kmap_local(&part);
		if (to_bio)
			memcpy(mapped, at, part.bv_len);
		else
			memcpy(at, mapped, part.bv_len);
		kunmap_local(mapped);
		if (to_bio)
			flush_dcache_page(part.bv_page);
		at += part.bv_len;
		left -= part.bv_len;
		bio_advance_iter(bio, iter, part.bv_len);
	}
}

static int zm_scattered_page(struct zm_device *device, u64 number, struct bio *bio,
			     struct bvec_iter *iter, bool write)
{
	struct page *first = bio_iter_page(bio, *iter);
	void *whole = (void *)__get_free_page(GFP_NOIO);
	int err;

	if (!whole)
		return -ENOMEM;
	if (write)
		zm_copy_parts(bio, iter, whole, false);
	err = zm_page_io(device, number, whole, first, write);
	if (!err && !write)
		zm_copy_parts(bio, iter, whole, true);
	free_page((unsigned long)whole);
	return err;
}

static int zm_bio_pages(struct zm_device *device, struct bio *bio, bool write)
{
	u64 number = bio->bi_iter.bi_sector / ZM_SECTORS;
	struct bvec_iter iter = bio->bi_iter;
	int err = 0;

	for (; iter.bi_size && !err; number++) {
		struct bio_vec part = bio_iter_iovec(bio, iter);

		if (part.bv_len == PAGE_SIZE) {
			err = zm_whole_page(device, number, part.bv_page, write);
			bio_advance_iter_single(bio, &iter, PAGE_SIZE);
		} else {
			err = zm_scattered_page(device, number, bio, &iter, write);
		}
	}
	return err;
}

static void zm_bio_rw(struct zm_device *device, struct bio *bio, bool write)
{
	unsigned long start = bio_start_io_acct(bio);
	int err = zm_bio_pages(device, bio, write);

	if (err)
		bio->bi_status = errno_to_blk_status(err);
	bio_end_io_acct(bio, start);
	bio_endio(bio);
}

static void zm_bio_discard(struct zm_device *device, struct bio *bio)
{
	u64 number = bio->bi_iter.bi_sector / ZM_SECTORS;
	u64 end = number + bio->bi_iter.bi_size / PAGE_SIZE;

	for (; number < end; number++) {
		atomic64_inc(&device->notify_free);
		zm_clear(&device->core, number);
		if (!(number & 1023))
			cond_resched();
	}
	bio_endio(bio);
}

static bool zm_bio_fits(struct zm_device *device, struct bio *bio)
{
	u64 end = bio->bi_iter.bi_sector + bio_sectors(bio);

	return !(bio->bi_iter.bi_sector % ZM_SECTORS) && !(bio->bi_iter.bi_size % PAGE_SIZE) &&
	       end <= device->core.nslots * ZM_SECTORS;
}

static void zm_submit_bio(struct bio *bio)
{
	struct zm_device *device = bio->bi_bdev->bd_disk->private_data;

	if (!zm_bio_fits(device, bio)) {
		atomic64_inc(&device->invalid_io);
		return bio_io_error(bio);
	}
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return zm_bio_rw(device, bio, false);
	case REQ_OP_WRITE:
		return zm_bio_rw(device, bio, true);
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		return zm_bio_discard(device, bio);
	default:
		atomic64_inc(&device->invalid_io);
		bio->bi_status = BLK_STS_NOTSUPP;
		bio_endio(bio);
	}
}

#if ZM_HAS_RW_PAGE
/*
 * Transfers one page at once, without a request: this makes the device a synchronous swap device.
 */
static int zm_rw_page(struct block_device *bdev, sector_t sector, struct page *page, enum req_op op)
{
	struct zm_device *device = bdev->bd_disk->private_data;
	u64 number = sector / ZM_SECTORS;
	bool write = op_is_write(op);
	int err;

	if (PageTransHuge(page))
		return -EOPNOTSUPP;
	if (sector % ZM_SECTORS || number >= device->core.nslots) {
		atomic64_inc(&device->invalid_io);
		return -EINVAL;
	}
	err = zm_whole_page(device, number, page, write);
	if (!err)
		page_endio(page, write, 0);
	return err;
}
#endif

/* Called by swap under its spinlocks. */
static void zm_slot_free_notify(struct block_device *bdev, unsigned long number)
{
	struct zm_device *device = bdev->bd_disk->private_data;

	atomic64_inc(&device->notify_free);
	if (!WARN_ON_ONCE(number >= device->core.nslots))
		zm_clear_at_once(&device->core, number);
}

static int zm_enter(struct zm_device *device)
{
	int err = 0;

	mutex_lock(&device->gate);
	if (device->claimed)
		err = -EBUSY;
	else
		device->openers++;
	mutex_unlock(&device->gate);
	return err;
}

static void zm_leave(struct zm_device *device)
{
	mutex_lock(&device->gate);
	device->openers--;
	mutex_unlock(&device->gate);
}

#if ZM_HAS_OPEN_TAKES_DISK
static int zm_open(struct gendisk *disk, blk_mode_t mode)
{
	return zm_enter(disk->private_data);
}

static void zm_close(struct gendisk *disk)
{
	zm_leave(disk->private_data);
}
#else
static int zm_open(struct block_device *bdev, fmode_t mode)
{
	return zm_enter(bdev->bd_disk->private_data);
}

static void zm_close(struct gendisk *disk, fmode_t mode)
{
	zm_leave(disk->private_data);
}
#endif

const struct block_device_operations zm_disk_ops = {
	.owner = THIS_MODULE,
	.submit_bio = zm_submit_bio,
	.open = zm_open,
	.release = zm_close,
#if ZM_HAS_RW_PAGE
	.rw_page = zm_rw_page,
#endif
	.swap_slot_free_notify = zm_slot_free_notify,
};

#if ZM_HAS_ALLOC_DISK_WITH_LIMITS
static struct gendisk *zm_disk_with_limits(void)
{
	struct queue_limits limits = {
		.logical_block_size = PAGE_SIZE,
		.physical_block_size = PAGE_SIZE,
		.io_min = PAGE_SIZE,
		.io_opt = PAGE_SIZE,
		.max_hw_discard_sectors = UINT_MAX,
		.max_write_zeroes_sectors = UINT_MAX,
		.discard_granularity = PAGE_SIZE,
#if ZM_HAS_LIMITS_HAVE_FEATURES
		.features = BLK_FEAT_STABLE_WRITES | BLK_FEAT_SYNCHRONOUS,
#endif
	};
	struct gendisk *disk = blk_alloc_disk(&limits, NUMA_NO_NODE);

	return IS_ERR(disk) ? NULL : disk;
}
#else
static struct gendisk *zm_disk_with_limits(void)
{
	struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);

	if (!disk)
		return NULL;
	blk_queue_logical_block_size(disk->queue, PAGE_SIZE);
	blk_queue_physical_block_size(disk->queue, PAGE_SIZE);
	blk_queue_io_min(disk->queue, PAGE_SIZE);
	blk_queue_io_opt(disk->queue, PAGE_SIZE);
	disk->queue->limits.discard_granularity = PAGE_SIZE;
	blk_queue_max_discard_sectors(disk->queue, UINT_MAX);
	blk_queue_max_write_zeroes_sectors(disk->queue, UINT_MAX);
	return disk;
}
#endif

static void zm_disk_flags(struct request_queue *queue)
{
#if !ZM_HAS_LIMITS_HAVE_FEATURES
	blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	/*
	 * If a page changed while it is written, a mix of its old and new content would be stored.
	 */
	blk_queue_flag_set(QUEUE_FLAG_STABLE_WRITES, queue);
#if !ZM_HAS_RW_PAGE
	blk_queue_flag_set(QUEUE_FLAG_SYNCHRONOUS, queue);
#endif
#endif
}

/* Allocates a disk without capacity, which is not visible yet. */
struct gendisk *zm_disk_alloc(struct zm_device *device)
{
	struct gendisk *disk = zm_disk_with_limits();

	if (!disk)
		return NULL;
	zm_disk_flags(disk->queue);
	disk->major = zm_major;
	disk->first_minor = device->id;
	disk->minors = 1;
	disk->flags |= GENHD_FL_NO_PART;
	disk->fops = &zm_disk_ops;
	disk->private_data = device;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "zmerge%d", device->id);
	return disk;
}
