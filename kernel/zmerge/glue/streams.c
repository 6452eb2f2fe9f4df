// SPDX-License-Identifier: GPL-2.0-only
/*
 * The buffers for compression and decompression, one set for each online CPU.
 *
 * They are allocated before a CPU comes online and freed after it has gone offline. A task may move
 * to another CPU while it holds a stream, so each stream has a lock; and it may get the stream of a
 * CPU that has gone offline meanwhile, which is empty.
 */
#include <linux/cpuhotplug.h>

#include "streams.h"

/* The CPU hotplug state in which streams are allocated and freed. */
static enum cpuhp_state zm_streams_state;

static int zm_writer_fill(struct zm_writer *writer, const struct zm_codec *codec, int level)
{
	writer->bytes = kvmalloc(ZM_WRITER_ROOM, ZM_GFP_SETUP);
	writer->work = kvzalloc(codec->writer_size(level), ZM_GFP_SETUP);
	if (!writer->bytes || !writer->work)
		return -ENOMEM;
	return codec->writer_init ? codec->writer_init(writer->work, level) : 0;
}

static int zm_reader_fill(struct zm_reader *reader, const struct zm_codec *codec)
{
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

static void zm_writer_empty(struct zm_writer *writer)
{
	mutex_lock(&writer->lock);
	writer->ready = false;
	kvfree(writer->bytes);
	kvfree(writer->work);
	writer->bytes = NULL;
	writer->work = NULL;
	mutex_unlock(&writer->lock);
}

static void zm_reader_empty(struct zm_reader *reader)
{
	mutex_lock(&reader->lock);
	reader->ready = false;
	free_page((unsigned long)reader->page);
	free_page((unsigned long)reader->copy);
	kvfree(reader->work);
	reader->page = NULL;
	reader->copy = NULL;
	reader->work = NULL;
	mutex_unlock(&reader->lock);
}

/* Frees the buffers of @cpu, which is offline or failed to come online. */
static int zm_stream_empty(unsigned int cpu, struct hlist_node *node)
{
	struct zm_streams *streams = hlist_entry(node, struct zm_streams, node);
	struct zm_stream *stream = per_cpu_ptr(streams->cpus, cpu);

	zm_writer_empty(&stream->writer);
	zm_reader_empty(&stream->reader);
	return 0;
}

/* Allocates the buffers of @cpu before it comes online. */
static int zm_stream_fill(unsigned int cpu, struct hlist_node *node)
{
	struct zm_streams *streams = hlist_entry(node, struct zm_streams, node);
	struct zm_stream *stream = per_cpu_ptr(streams->cpus, cpu);
	int err = zm_writer_fill(&stream->writer, streams->codec, streams->level);

	if (!err)
		err = zm_reader_fill(&stream->reader, streams->codec);
	if (err) {
		zm_stream_empty(cpu, node);
		return err;
	}
	stream->writer.ready = true;
	stream->reader.ready = true;
	return 0;
}

int zm_streams_init(struct zm_streams *streams, const struct zm_codec *codec, int level)
{
	unsigned int cpu;
	int err;

	streams->codec = codec;
	streams->level = level;
	streams->readers_lock = !ZM_HAS_ZS_MAP_OBJECT || !codec->equal || codec->reader_size;
	streams->cpus = alloc_percpu_gfp(struct zm_stream, ZM_GFP_SETUP | __GFP_ZERO);
	if (!streams->cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		mutex_init(&per_cpu_ptr(streams->cpus, cpu)->writer.lock);
		mutex_init(&per_cpu_ptr(streams->cpus, cpu)->reader.lock);
	}
	err = cpuhp_state_add_instance(zm_streams_state, &streams->node);
	if (err)
		free_percpu(streams->cpus);
	return err;
}

void zm_streams_destroy(struct zm_streams *streams)
{
	cpuhp_state_remove_instance(zm_streams_state, &streams->node);
	free_percpu(streams->cpus);
	memset(streams, 0, sizeof(*streams));
}

int zm_streams_register(void)
{
	int state = cpuhp_setup_state_multi(CPUHP_BP_PREPARE_DYN, "block/zmerge:prepare", zm_stream_fill, zm_stream_empty);

	if (state < 0)
		return state;
	zm_streams_state = state;
	return 0;
}

void zm_streams_unregister(void)
{
	cpuhp_remove_multi_state(zm_streams_state);
}
