// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory that compressing and decompressing needs, once for each processor.
 *
 * They are chosen by processor but not bound to it: a lock each makes that safe, and processors
 * may come and go. A writer sleeps if it must; a reader never does.
 */
#include "streams.h"

static int zm_writer_init(struct zm_writer *writer, const struct zm_codec *codec, int level)
{
	mutex_init(&writer->lock);
	writer->bytes = kvmalloc(ZM_WRITER_ROOM, ZM_GFP_SETUP);
	writer->work = kvzalloc(codec->writer_size(level), ZM_GFP_SETUP);
	if (!writer->bytes || !writer->work)
		return -ENOMEM;
	return codec->writer_init ? codec->writer_init(writer->work, level) : 0;
}

static int zm_reader_init(struct zm_reader *reader, const struct zm_codec *codec)
{
	spin_lock_init(&reader->lock);
	if (!codec->equal) {
		reader->page = (void *)__get_free_page(ZM_GFP_SETUP);
		if (!reader->page)
			return -ENOMEM;
	}
	if (!ZM_HAS_ZS_MAP_OBJECT) {
		reader->copy = (void *)__get_free_page(ZM_GFP_SETUP);
		if (!reader->copy)
			return -ENOMEM;
	}
	if (!codec->reader_size)
		return 0;
	reader->work = kvzalloc(codec->reader_size(), ZM_GFP_SETUP);
	if (!reader->work)
		return -ENOMEM;
	return codec->reader_init ? codec->reader_init(reader->work) : 0;
}

static int zm_streams_fill(struct zm_streams *streams)
{
	unsigned int at;
	int err = 0;

	for (at = 0; at < streams->count && !err; at++) {
		err = zm_writer_init(&streams->writers[at], streams->codec, streams->level);
		if (!err)
			err = zm_reader_init(&streams->readers[at], streams->codec);
	}
	return err;
}

int zm_streams_init(struct zm_streams *streams, const struct zm_codec *codec, int level)
{
	int err = -ENOMEM;

	streams->codec = codec;
	streams->level = level;
	streams->count = num_online_cpus();
	streams->writers = kvcalloc(streams->count, sizeof(*streams->writers), ZM_GFP_SETUP);
	streams->readers = kvcalloc(streams->count, sizeof(*streams->readers), ZM_GFP_SETUP);
	if (streams->writers && streams->readers)
		err = zm_streams_fill(streams);
	if (err)
		zm_streams_destroy(streams);
	return err;
}

void zm_streams_destroy(struct zm_streams *streams)
{
	unsigned int at;

	for (at = 0; streams->writers && at < streams->count; at++) {
		kvfree(streams->writers[at].bytes);
		kvfree(streams->writers[at].work);
	}
	for (at = 0; streams->readers && at < streams->count; at++) {
		free_page((unsigned long)streams->readers[at].page);
		free_page((unsigned long)streams->readers[at].copy);
		kvfree(streams->readers[at].work);
	}
	kvfree(streams->writers);
	kvfree(streams->readers);
	memset(streams, 0, sizeof(*streams));
}
