// SPDX-License-Identifier: GPL-2.0-only
/* The table of codecs. Adding a codec takes a file and a line here. */
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "zmerge.h"

static const struct zm_codec *const zm_codecs[] = {
#if IS_ENABLED(CONFIG_LZ4_COMPRESS) && IS_ENABLED(CONFIG_LZ4_DECOMPRESS)
	&zm_codec_lz4,
#endif
#if IS_ENABLED(CONFIG_ZSTD_COMPRESS) && IS_ENABLED(CONFIG_ZSTD_DECOMPRESS)
	&zm_codec_zstd,
#endif
#if IS_ENABLED(CONFIG_LZO_COMPRESS) && IS_ENABLED(CONFIG_LZO_DECOMPRESS)
	&zm_codec_lzo,
	&zm_codec_lzo_rle,
#endif
};

const struct zm_codec *zm_codec_default(void)
{
	BUILD_BUG_ON(!ARRAY_SIZE(zm_codecs));
	return zm_codecs[0];
}

/* The codec with this number; NULL after the last. */
const struct zm_codec *zm_codec_at(size_t number)
{
	return number < ARRAY_SIZE(zm_codecs) ? zm_codecs[number] : NULL;
}

const struct zm_codec *zm_codec_find(const char *name)
{
	size_t at;

	for (at = 0; at < ARRAY_SIZE(zm_codecs); at++)
		if (sysfs_streq(name, zm_codecs[at]->name))
			return zm_codecs[at];
	return NULL;
}

/* Prints the names of all codecs, with brackets around the chosen one. */
ssize_t zm_codec_list(const struct zm_codec *chosen, char *buf)
{
	size_t at;
	int len = 0;

	for (at = 0; at < ARRAY_SIZE(zm_codecs); at++)
		len += sysfs_emit_at(buf, len, zm_codecs[at] == chosen ? "[%s] " : "%s ", zm_codecs[at]->name);
	return len + sysfs_emit_at(buf, len, "\n");
}
