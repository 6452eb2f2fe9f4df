// SPDX-License-Identifier: GPL-2.0-only
/*
 * zmerge - RAM block device that stores each distinct page once
 *
 * The module: the list of devices. device.c implements a device; core/ stores and merges pages.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/idr.h>
#include <linux/module.h>

#include "zmerge.h"

/* Serializes adding and removing devices, and protects zm_devices. */
DEFINE_MUTEX(zm_devices_lock);
struct workqueue_struct *zm_workqueue;
int zm_major;

static DEFINE_IDR(zm_devices);

/* Maximum for the module parameter; more devices can be added through hot_add. */
#define ZM_NUM_DEVICES_MAX	256

static unsigned int num_devices = 1;
module_param(num_devices, uint, 0444);
MODULE_PARM_DESC(num_devices, "Number of devices that are there at once (default: 1, at most 256)");

/* The lowest free device number. */
int zm_devices_free_id(void)
{
	int id = 0;

	mutex_lock(&zm_devices_lock);
	while (idr_find(&zm_devices, id))
		id++;
	mutex_unlock(&zm_devices_lock);
	return id;
}

int zm_devices_add(int id)
{
	struct zm_device *device;
	int got;

	mutex_lock(&zm_devices_lock);
	got = idr_alloc(&zm_devices, NULL, id, id + 1, GFP_KERNEL);
	if (got < 0) {
		mutex_unlock(&zm_devices_lock);
		return got == -ENOSPC ? -EEXIST : got;
	}
	device = zm_device_add(id);
	if (IS_ERR(device))
		idr_remove(&zm_devices, id);
	else
		idr_replace(&zm_devices, device, id);
	mutex_unlock(&zm_devices_lock);
	return PTR_ERR_OR_ZERO(device);
}

int zm_devices_remove(int id)
{
	struct zm_device *device;
	int err = -ENODEV;

	mutex_lock(&zm_devices_lock);
	device = idr_find(&zm_devices, id);
	if (device)
		err = zm_device_remove(device);
	if (!err)
		idr_remove(&zm_devices, id);
	mutex_unlock(&zm_devices_lock);
	return err;
}

/*
 * Removes all devices. None is open, as that would pin the module, but one may still be being
 * reset.
 */
static void zm_remove_all(void)
{
	struct zm_device *device;
	int id;

	idr_for_each_entry(&zm_devices, device, id)
		while (zm_device_remove(device))
			msleep(20);
	idr_destroy(&zm_devices);
}

static int zm_add_first(void)
{
	unsigned int id;
	int err = 0;

	for (id = 0; id < num_devices && !err; id++)
		err = zm_devices_add(id);
	return err;
}

static int __init zm_module_init(void)
{
	int err = -ENOMEM;

	if (num_devices > ZM_NUM_DEVICES_MAX) {
		pr_warn("num_devices: expected at most %u\n", ZM_NUM_DEVICES_MAX);
		return -EINVAL;
	}
	zm_workqueue = alloc_workqueue("zmerge", WQ_UNBOUND, 0);
	if (!zm_workqueue)
		return err;
	err = zm_streams_register();
	if (err)
		goto destroy_workqueue;
	zm_major = register_blkdev(0, "zmerge");
	if (zm_major < 0) {
		err = zm_major;
		goto unregister_streams;
	}
	err = zm_add_first();
	if (!err)
		err = zm_control_init();
	if (err)
		goto remove_all;
	return 0;

remove_all:
	zm_remove_all();
	unregister_blkdev(zm_major, "zmerge");
unregister_streams:
	zm_streams_unregister();
destroy_workqueue:
	destroy_workqueue(zm_workqueue);
	return err;
}

static void __exit zm_module_exit(void)
{
	zm_control_exit();
	zm_remove_all();
	unregister_blkdev(zm_major, "zmerge");
	zm_streams_unregister();
	destroy_workqueue(zm_workqueue);
}

module_init(zm_module_init);
module_exit(zm_module_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("The Pagewise authors");
MODULE_DESCRIPTION("Compressed RAM block device that stores each distinct page once");
MODULE_VERSION("0.2.0");
MODULE_SOFTDEP("pre: lz4_compress zsmalloc");
