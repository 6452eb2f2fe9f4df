// SPDX-License-Identifier: GPL-2.0-only
/* What people write into files -> values. Nothing may follow them but a newline. */
#include <linux/kernel.h>
#include <linux/string.h>

#include "zmerge.h"

/* "1G" -> bytes. */
int zm_parse_size(const char *text, u64 *bytes)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	*bytes = memparse(text, &end);
	if (*end == '\n')
		end++;
	return *end ? -EINVAL : 0;
}

/* A device's number: as many as a major number has minor ones. */
int zm_parse_id(const char *text, int *id)
{
	int err = kstrtoint(text, 10, id);

	return err || *id < 0 || *id >> MINORBITS ? -EINVAL : 0;
}

/* "algo=NAME level=N", each of which may be missing. @text is taken apart. */
int zm_parse_params(char *text, const struct zm_codec **codec, int *level, bool *has_level)
{
	char *word, *value;

	while ((word = strsep(&text, " \n"))) {
		if (!*word)
			continue;
		value = strchr(word, '=');
		if (!value)
			return -EINVAL;
		*value++ = '\0';
		if (!strcmp(word, "algo"))
			*codec = zm_codec_find(value);
		else if (strcmp(word, "level") || kstrtoint(value, 10, level))
			return -EINVAL;
		else
			*has_level = true;
		if (!*codec)
			return -EINVAL;
	}
	return 0;
}
