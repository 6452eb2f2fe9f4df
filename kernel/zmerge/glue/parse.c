// SPDX-License-Identifier: GPL-2.0-only
/* Parses values written to sysfs files. Only a newline may follow a value. */
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "zmerge.h"

/*
 * Parses "1G" to bytes like memparse(), which wraps around: "16E" is an error here, not 0. In a
 * hexadecimal number a final E is a digit, not a suffix.
 */
int zm_parse_size(const char *text, u64 *bytes)
{
	static const char suffixes[] = "KMGTPE";
	size_t len = strcspn(text, "\n");
	unsigned int shift = 0;
	const char *suffix;
	char number[32];

	if (text[0] < '0' || text[0] > '9' || len >= sizeof(number) || (text[len] && text[len + 1]))
		return -EINVAL;
	memcpy(number, text, len);
	number[len] = '\0';
	suffix = strchr(suffixes, toupper(number[len - 1]));
	if (suffix && !(tolower(number[1]) == 'x' && *suffix == 'E')) {
		shift = 10 * (suffix - suffixes + 1);
		number[len - 1] = '\0';
	}
	if (kstrtou64(number, 0, bytes) || *bytes > U64_MAX >> shift)
		return -EINVAL;
	*bytes <<= shift;
	return 0;
}

/* Parses a device number, which must be a valid minor number. */
int zm_parse_id(const char *text, int *id)
{
	int err = kstrtoint(text, 10, id);

	return err || *id < 0 || *id >> MINORBITS ? -EINVAL : 0;
}

/* Parses "algo=NAME level=N", each of which may be missing. Modifies @text. */
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
