// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/zmerge-control: adds and removes devices.
 *
 * zram adds a device when hot_add is read. Here reading has no effect: it returns the lowest free
 * number, and writing that number adds the device.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device/class.h>
#include <linux/kernel.h>
#include <linux/sysfs.h>

#include "zmerge.h"

#if ZM_HAS_CLASS_IS_CONST
#define ZM_CLASS_ARGS	const struct class *class, const struct class_attribute *attr
#else
#define ZM_CLASS_ARGS	struct class *class, struct class_attribute *attr
#endif

static int zm_id_of(const char *buf, int *id)
{
	int err = zm_parse_id(buf, id);

	if (err)
		pr_warn("expected a device's number, 0 to %u\n", (1u << MINORBITS) - 1);
	return err;
}

static ssize_t hot_add_show(ZM_CLASS_ARGS, char *buf)
{
	return sysfs_emit(buf, "%d\n", zm_devices_free_id());
}

static ssize_t hot_add_store(ZM_CLASS_ARGS, const char *buf, size_t count)
{
	int id, err = zm_id_of(buf, &id);

	if (err)
		return err;
	err = zm_devices_add(id);
	if (err)
		pr_warn("zmerge%d: cannot be added: error %d\n", id, err);
	return err ? err : count;
}

static ssize_t hot_remove_store(ZM_CLASS_ARGS, const char *buf, size_t count)
{
	int id, err = zm_id_of(buf, &id);

	if (err)
		return err;
	err = zm_devices_remove(id);
	if (err == -ENODEV)
		pr_warn("zmerge%d: there is none to remove\n", id);
	return err ? err : count;
}

static struct class_attribute zm_control_files[] = {
	__ATTR(hot_add, 0600, hot_add_show, hot_add_store),
	__ATTR(hot_remove, 0200, NULL, hot_remove_store),
};

static struct class *zm_control;

int zm_control_init(void)
{
	size_t at;
	int err = 0;

#if ZM_HAS_CLASS_CREATE_OWNER
	zm_control = class_create(THIS_MODULE, "zmerge-control");
#else
	zm_control = class_create("zmerge-control");
#endif
	if (IS_ERR(zm_control))
		return PTR_ERR(zm_control);
	for (at = 0; at < ARRAY_SIZE(zm_control_files) && !err; at++)
		err = class_create_file(zm_control, &zm_control_files[at]);
	if (err)
		class_destroy(zm_control);
	return err;
}

void zm_control_exit(void)
{
	size_t at;

	for (at = 0; at < ARRAY_SIZE(zm_control_files); at++)
		class_remove_file(zm_control, &zm_control_files[at]);
	class_destroy(zm_control);
}
