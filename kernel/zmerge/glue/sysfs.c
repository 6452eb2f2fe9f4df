// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/block/zmergeN: zram's files with zram's meaning, and the files for merging, one value each.
 *
 * A store function parses the value, calls the device, and logs one line if the value was refused.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/sysfs.h>

#include "zmerge.h"

static struct zm_device *zm_of(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

/*
 * Ends a store function: returns @count, or @err after logging one line that says what was wrong.
 */
static ssize_t zm_result(struct zm_device *device, const char *file, int err, const char *wrong, size_t count)
{
	if (!err)
		return count;
	zm_say(device, "%s: %s (error %d)", file, wrong, err);
	return err;
}

static ssize_t disksize_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);
	u64 bytes;

	down_read(&device->init_lock);
	bytes = device->ready ? device->core.nslots * PAGE_SIZE : 0;
	up_read(&device->init_lock);
	return sysfs_emit(buf, "%llu\n", bytes);
}

static ssize_t disksize_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	u64 bytes;
	int err = zm_parse_size(buf, &bytes);

	if (err)
		return zm_result(device, "disksize", err, "expected a size like 512M", count);
	down_write(&device->init_lock);
	err = zm_device_setup(device, bytes);
	up_write(&device->init_lock);
	return zm_result(device, "disksize", err, err == -EBUSY ? "set already: reset it first" :
			 err == -ENOMEM ? "no memory for a table of that size" :
			 err == -EOPNOTSUPP ? "the algorithm cannot be used with this level here" : "expected more than 0",
			 count);
}

static ssize_t initstate_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);
	bool ready;

	down_read(&device->init_lock);
	ready = device->ready;
	up_read(&device->init_lock);
	return sysfs_emit(buf, "%u\n", ready);
}

static ssize_t reset_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	u16 yes;
	int err = kstrtou16(buf, 10, &yes);

	if (err || !yes)
		return zm_result(device, "reset", -EINVAL, "expected 1", count);
	err = zm_device_reset(device);
	return err ? err : count;
}

static ssize_t comp_algorithm_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);
	ssize_t len;

	down_read(&device->init_lock);
	len = zm_codec_list(device->codec, buf);
	up_read(&device->init_lock);
	return len;
}

static int zm_choose_codec(struct zm_device *device, const struct zm_codec *codec, int level)
{
	lockdep_assert_held_write(&device->init_lock);
	if (device->ready)
		return -EBUSY;
	device->codec = codec;
	device->level = level;
	return 0;
}

static ssize_t comp_algorithm_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	const struct zm_codec *codec = zm_codec_find(buf);
	int err;

	if (!codec)
		return zm_result(device, "comp_algorithm", -EINVAL, "no such algorithm here", count);
	down_write(&device->init_lock);
	err = zm_choose_codec(device, codec, codec->level);
	up_write(&device->init_lock);
	return zm_result(device, "comp_algorithm", err, "in use: reset it first", count);
}

static ssize_t algorithm_params_store(struct device *dev, struct device_attribute *attr,
				      const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	const struct zm_codec *codec;
	bool has_level = false;
	char *text = kstrdup(buf, GFP_KERNEL);
	int level, err;

	if (!text)
		return -ENOMEM;
	down_write(&device->init_lock);
	codec = device->codec;
	err = zm_parse_params(text, &codec, &level, &has_level);
	if (!err && !has_level)
		level = codec->level;
	if (!err && (level < codec->level_min || level > codec->level_max))
		err = -ERANGE;
	if (!err)
		err = zm_choose_codec(device, codec, level);
	up_write(&device->init_lock);
	kfree(text);
	return zm_result(device, "algorithm_params", err,
			 err == -EBUSY ? "in use: reset it first" :
			 err == -ERANGE ? "no such level of this algorithm" :
			 "expected algo=NAME level=N", count);
}

static const char *const zm_modes[] = { "off", "request", "inline", "adaptive" };

static ssize_t merge_mode_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);
	size_t at;
	int len = 0;

	down_read(&device->init_lock);
	for (at = 0; at < ARRAY_SIZE(zm_modes); at++)
		len += sysfs_emit_at(buf, len, at == device->mode ? "[%s] " : "%s ", zm_modes[at]);
	up_read(&device->init_lock);
	return len + sysfs_emit_at(buf, len, "\n");
}

static ssize_t merge_mode_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	int mode = sysfs_match_string(zm_modes, buf);

	if (mode < 0)
		return zm_result(device, "merge_mode", mode, "expected off, request, inline or adaptive", count);
	down_write(&device->init_lock);
	device->mode = mode;
	if (mode == ZM_OFF)
		zm_device_stop_merge(device);
	if (device->ready)
		zm_set_mode(&device->core, mode);
	up_write(&device->init_lock);
	return count;
}

static const char *const zm_domains[] = { "device", "cgroup" };

static ssize_t merge_domain_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);
	bool by_cgroup;

	down_read(&device->init_lock);
	by_cgroup = device->by_cgroup;
	up_read(&device->init_lock);
	return sysfs_emit(buf, by_cgroup ? "device [cgroup]\n" : "[device] cgroup\n");
}

static ssize_t merge_domain_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	int by_cgroup = sysfs_match_string(zm_domains, buf), err = 0;

	if (by_cgroup < 0)
		return zm_result(device, "merge_domain", by_cgroup, "expected device or cgroup", count);
	down_write(&device->init_lock);
	if (device->ready)
		err = -EBUSY;
	else if (by_cgroup && !zm_domain_known())
		err = -EOPNOTSUPP;
	else
		device->by_cgroup = by_cgroup;
	up_write(&device->init_lock);
	return zm_result(device, "merge_domain", err, err == -EBUSY ? "in use: reset it first" :
			 "this kernel has no memory cgroups, or they are disabled", count);
}

static ssize_t merge_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);
	u64 left;

	down_read(&device->init_lock);
	left = zm_device_merge_left(device);
	up_read(&device->init_lock);
	return sysfs_emit(buf, "%llu\n", left);
}

static const char *const zm_merges[] = { "1", "keep", "0" };

static ssize_t merge_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	int what = sysfs_match_string(zm_merges, buf), err;

	if (what < 0)
		return zm_result(device, "merge", what, "expected 1, keep to compact nothing, or 0 to stop", count);
	if (what == 2) {
		down_write(&device->init_lock);
		zm_device_stop_merge(device);
		up_write(&device->init_lock);
		return count;
	}
	down_read(&device->init_lock);
	err = zm_device_merge(device, what == 0);
	up_read(&device->init_lock);
	return zm_result(device, "merge", err, err == -EBUSY ? "a pass is running" :
			 err == -EOPNOTSUPP ? "merge_mode is off" : "no disksize yet", count);
}

static ssize_t merge_budget_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", (u64)atomic64_read(&zm_of(dev)->merge_budget));
}

static ssize_t merge_budget_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	u64 bytes;
	int err = zm_parse_size(buf, &bytes);

	if (err)
		return zm_result(device, "merge_budget", err, "expected a size like 1M", count);
	if (bytes < ZM_BUDGET_MIN || bytes > ZM_BUDGET_MAX)
		return zm_result(device, "merge_budget", -EINVAL, "expected at least 4 pages and at most 1G", count);
	down_read(&device->init_lock);
	zm_device_set_budget(device, bytes);
	up_read(&device->init_lock);
	return count;
}

static ssize_t merge_rate_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&zm_of(dev)->merge_rate));
}

static ssize_t merge_rate_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	int rate, err = kstrtoint(buf, 10, &rate);

	if (err || rate < 0)
		return zm_result(device, "merge_rate", -EINVAL, "expected slots a second, or 0 for no limit", count);
	atomic_set(&device->merge_rate, rate);
	return count;
}

static ssize_t compact_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	int err = -EINVAL;

	down_read(&device->init_lock);
	if (device->ready) {
		zs_compact(device->pool);
		err = 0;
	}
	up_read(&device->init_lock);
	return zm_result(device, "compact", err, "no disksize yet", count);
}

static ssize_t mem_limit_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	u64 bytes;
	int err = zm_parse_size(buf, &bytes);

	if (!err) {
		bytes = min_t(u64, bytes, U64_MAX - PAGE_SIZE);
		atomic_long_set(&device->limit_pages, min_t(u64, LONG_MAX, DIV_ROUND_UP_ULL(bytes, PAGE_SIZE)));
	}
	return zm_result(device, "mem_limit", err, "expected a size like 512M, or 0 for none", count);
}

static ssize_t mem_used_max_store(struct device *dev, struct device_attribute *attr,
				  const char *buf, size_t count)
{
	struct zm_device *device = zm_of(dev);
	unsigned long zero;
	int err = kstrtoul(buf, 10, &zero);

	if (err || zero)
		return zm_result(device, "mem_used_max", -EINVAL, "expected 0", count);
	down_read(&device->init_lock);
	atomic_long_set(&device->max_pages, device->ready ? zs_get_total_pages(device->pool) : 0);
	up_read(&device->init_lock);
	return count;
}

/* The nine columns of zram's mm_stat. */
static ssize_t mm_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);
	struct zm_stats *stats = &device->core.stats;
	struct zs_pool_stats pool = { 0 };
	u64 used = 0;
	ssize_t len;

	down_read(&device->init_lock);
	if (device->ready) {
		used = zs_get_total_pages(device->pool);
		zs_pool_stats(device->pool, &pool);
	}
	len = sysfs_emit(buf, "%8llu %8llu %8llu %8llu %8llu %8llu %8lu %8llu %8llu\n",
			 zm_sum(&stats->pages) << PAGE_SHIFT,
			 zm_sum(&stats->stored_bytes), used << PAGE_SHIFT,
			 (u64)atomic_long_read(&device->limit_pages) << PAGE_SHIFT,
			 (u64)atomic_long_read(&device->max_pages) << PAGE_SHIFT,
			 zm_sum(&stats->same_pages),
			 atomic_long_read(&pool.pages_compacted),
			 zm_sum(&stats->huge_pages),
			 zm_sum(&stats->huge_pages_since));
	up_read(&device->init_lock);
	return len;
}

static ssize_t io_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);

	return sysfs_emit(buf, "%8llu %8llu %8llu %8llu\n",
			  (u64)atomic64_read(&device->failed_reads),
			  (u64)atomic64_read(&device->failed_writes),
			  (u64)atomic64_read(&device->invalid_io),
			  (u64)atomic64_read(&device->notify_free));
}

static ssize_t zm_show_sum(struct device *dev, char *buf, const atomic64_t *sum)
{
	struct zm_device *device = zm_of(dev);
	u64 value;

	down_read(&device->init_lock);
	value = zm_sum(sum);
	up_read(&device->init_lock);
	return sysfs_emit(buf, "%llu\n", value);
}

static ssize_t merged_pages_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return zm_show_sum(dev, buf, &zm_of(dev)->core.stats.merged_pages);
}

static ssize_t merged_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return zm_show_sum(dev, buf, &zm_of(dev)->core.stats.merged_bytes);
}

static ssize_t merge_hits_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return zm_show_sum(dev, buf, &zm_of(dev)->core.stats.hits);
}

static ssize_t merge_misses_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return zm_show_sum(dev, buf, &zm_of(dev)->core.stats.misses);
}

static ssize_t index_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_of(dev);
	u64 bytes;

	down_read(&device->init_lock);
	bytes = zm_index_bytes(&device->core);
	up_read(&device->init_lock);
	return sysfs_emit(buf, "%llu\n", bytes);
}

/*
 * Values that depend on the stored objects reveal whether an equal page was stored before a write,
 * so they are readable by root only, in every mode: the mode can change after a file was opened,
 * and a pass on request reveals copies, too.
 */
static DEVICE_ATTR_RW(disksize);
static DEVICE_ATTR_RO(initstate);
static DEVICE_ATTR_WO(reset);
static DEVICE_ATTR_RW(comp_algorithm);
static DEVICE_ATTR_WO(algorithm_params);
static DEVICE_ATTR_RW(merge_mode);
static DEVICE_ATTR_RW(merge_domain);
static DEVICE_ATTR_RW(merge);
static DEVICE_ATTR_RW(merge_budget);
static DEVICE_ATTR_RW(merge_rate);
static DEVICE_ATTR_WO(compact);
static DEVICE_ATTR_WO(mem_limit);
static DEVICE_ATTR_WO(mem_used_max);
static DEVICE_ATTR_ADMIN_RO(mm_stat);
static DEVICE_ATTR_ADMIN_RO(io_stat);
static DEVICE_ATTR_ADMIN_RO(merged_pages);
static DEVICE_ATTR_ADMIN_RO(merged_bytes);
static DEVICE_ATTR_ADMIN_RO(merge_hits);
static DEVICE_ATTR_ADMIN_RO(merge_misses);
static DEVICE_ATTR_ADMIN_RO(index_bytes);

static struct attribute *zm_disk_attrs[] = {
	&dev_attr_disksize.attr,
	&dev_attr_initstate.attr,
	&dev_attr_reset.attr,
	&dev_attr_comp_algorithm.attr,
	&dev_attr_algorithm_params.attr,
	&dev_attr_merge_mode.attr,
	&dev_attr_merge_domain.attr,
	&dev_attr_merge.attr,
	&dev_attr_merge_budget.attr,
	&dev_attr_merge_rate.attr,
	&dev_attr_compact.attr,
	&dev_attr_mem_limit.attr,
	&dev_attr_mem_used_max.attr,
	&dev_attr_mm_stat.attr,
	&dev_attr_io_stat.attr,
	&dev_attr_merged_pages.attr,
	&dev_attr_merged_bytes.attr,
	&dev_attr_merge_hits.attr,
	&dev_attr_merge_misses.attr,
	&dev_attr_index_bytes.attr,
	NULL,
};

static const struct attribute_group zm_disk_group = { .attrs = zm_disk_attrs };

const struct attribute_group *zm_disk_groups[] = { &zm_disk_group, NULL };
