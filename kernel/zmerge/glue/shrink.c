// SPDX-License-Identifier: GPL-2.0-only
/*
 * A shrinker for the index: under memory pressure it removes entries of objects that only one slot
 * has. Copies written later are then not found until they are written again, or a pass merges them.
 *
 * It takes only spinlocks, and is registered as long as the core exists.
 */
#include "zmerge.h"

static struct zm_device *zm_device_of(struct shrinker *shrinker)
{
#if ZM_HAS_SHRINKER_ALLOC
	return shrinker->private_data;
#else
	return container_of(shrinker, struct zm_device, shrinker);
#endif
}

static unsigned long zm_shrink_count(struct shrinker *shrinker, struct shrink_control *control)
{
	return min_t(u64, zm_index_singles(&zm_device_of(shrinker)->core.index), LONG_MAX);
}

static unsigned long zm_shrink_scan(struct shrinker *shrinker, struct shrink_control *control)
{
	return zm_forget_some(&zm_device_of(shrinker)->core, control->nr_to_scan);
}

#if ZM_HAS_SHRINKER_ALLOC
int zm_shrinker_add(struct zm_device *device)
{
	struct shrinker *shrinker = shrinker_alloc(0, "zmerge:%d", device->id);

	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = zm_shrink_count;
	shrinker->scan_objects = zm_shrink_scan;
	shrinker->private_data = device;
	shrinker_register(shrinker);
	device->shrinker = shrinker;
	return 0;
}

void zm_shrinker_remove(struct zm_device *device)
{
	shrinker_free(device->shrinker);
	device->shrinker = NULL;
}
#else
int zm_shrinker_add(struct zm_device *device)
{
	device->shrinker.count_objects = zm_shrink_count;
	device->shrinker.scan_objects = zm_shrink_scan;
	device->shrinker.seeks = DEFAULT_SEEKS;
	return register_shrinker(&device->shrinker, "zmerge:%d", device->id);
}

void zm_shrinker_remove(struct zm_device *device)
{
	unregister_shrinker(&device->shrinker);
}
#endif
