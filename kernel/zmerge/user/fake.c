// SPDX-License-Identifier: GPL-2.0-only
#include "fake.h"

u64 div64_u64_rem(u64 a, u64 b, u64 *rest)
{
	*rest = a % b;
	return a / b;
}

static unsigned int refuse_every;
static atomic_t asked;

void fake_refuse(unsigned int n)
{
	atomic_set(&asked, 0);
	__atomic_store_n(&refuse_every, n, __ATOMIC_RELAXED);
}

bool zm_test_refuses(void)
{
	unsigned int n = READ_ONCE(refuse_every);

	return n && !(atomic_inc_return(&asked) % n);
}

size_t zm_test_largest;
static atomic64_t memory_now, memory_most;

/* Stored before each block of memory that the core gets. */
union header {
	size_t size;
	max_align_t align;
};

void *zm_test_alloc(size_t size, bool zeros)
{
	union header *header;
	s64 now, most;

	if (zm_test_refuses() || (zm_test_largest && size > zm_test_largest))
		return NULL;
	header = zeros ? calloc(1, sizeof(*header) + size) : malloc(sizeof(*header) + size);
	CHECK(header);
	header->size = size;
	now = __atomic_add_fetch(&memory_now.v, size, __ATOMIC_RELAXED);
	most = __atomic_load_n(&memory_most.v, __ATOMIC_RELAXED);
	while (now > most &&
	       !__atomic_compare_exchange_n(&memory_most.v, &most, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return header + 1;
}

void zm_test_free(void *memory)
{
	union header *header = memory;

	if (!memory)
		return;
	__atomic_sub_fetch(&memory_now.v, (--header)->size, __ATOMIC_RELAXED);
	free(header);
}

u64 fake_memory(void)
{
	return __atomic_load_n(&memory_now.v, __ATOMIC_RELAXED);
}

u64 fake_memory_most(void)
{
	return __atomic_exchange_n(&memory_most.v, memory_now.v, __ATOMIC_RELAXED);
}

__thread unsigned int zm_test_locks;
__thread const struct lockdep_map *zm_test_map;
__thread const spinlock_t *zm_test_last_lock;
void (*zm_test_interrupt)(void);

struct object {
	u32 len;
	u8 bytes[];
};

static __thread struct zm_reader reader;
static __thread struct zm_writer writer;
static __thread bool reading, writing;

bool fake_is_busy(void)
{
	return reading || writing;
}

u64 zm_op_alloc(void *ctx, const void *page, u32 len, bool may_wait)
{
	struct fake *fake = ctx;
	struct object *object;

	__atomic_store_n(&fake->page, page, __ATOMIC_RELAXED);
	CHECK(len && len <= PAGE_SIZE && !reading && !(may_wait && (writing || zm_test_map)));
	if ((fake->shy && !may_wait) || zm_test_refuses())
		return 0;
	if (fake->memory && (u64)atomic64_read(&fake->bytes) + len > fake->memory)
		return 0;
	object = malloc(sizeof(*object) + len);
	CHECK(object);
	object->len = len;
	atomic64_inc(&fake->objects);
	atomic64_add(len, &fake->bytes);
	return (u64)(uintptr_t)object;
}

bool zm_op_permits(void *ctx, u64 charge)
{
	struct fake *fake = ctx;

	return !fake->limit || charge <= fake->limit;
}

u64 zm_op_room(void *ctx)
{
	struct fake *fake = ctx;

	return fake->room ? fake->room - 1 : U64_MAX;
}

static struct object *object_of(u64 handle)
{
	return (struct object *)(uintptr_t)handle;
}

void zm_op_free(void *ctx, u64 handle)
{
	struct fake *fake = ctx;

	CHECK(!reading);
	atomic64_sub(1, &fake->objects);
	atomic64_sub(object_of(handle)->len, &fake->bytes);
	free(object_of(handle));
}

void zm_op_store(void *ctx, u64 handle, const void *bytes, u32 len)
{
	(void)ctx;
	CHECK(len <= object_of(handle)->len);
	memcpy(object_of(handle)->bytes, bytes, len);
}

struct zm_reader *zm_op_reader_get(void *ctx)
{
	(void)ctx;
	CHECK(!reading);
	__might_sleep(__FILE__, __LINE__);
	reading = true;
	return &reader;
}

void zm_op_reader_put(void *ctx, struct zm_reader *got)
{
	(void)ctx;
	CHECK(reading && got == &reader);
	reading = false;
}

void (*fake_loaded)(void);

/* Runs the test's hook as another CPU would run: with its own locked slot and its own reader. */
static void be_interrupted(void)
{
	const struct lockdep_map *map = zm_test_map;

	zm_test_map = NULL;
	reading = false;
	fake_loaded();
	reading = true;
	zm_test_map = map;
}

const void *zm_op_load(void *ctx, struct zm_reader *got, u64 handle, u32 len)
{
	(void)ctx;
	CHECK(reading && got == &reader && len <= object_of(handle)->len);
	if (fake_loaded)
		be_interrupted();
	return object_of(handle)->bytes;
}

void zm_op_unload(void *ctx, struct zm_reader *got, u64 handle, u32 len, const void *at)
{
	(void)ctx;
	(void)got;
	CHECK(reading && len <= object_of(handle)->len && at == object_of(handle)->bytes);
}

struct zm_writer *zm_op_writer_get(void *ctx)
{
	(void)ctx;
	CHECK(!writing && !reading && !zm_test_map);
	writing = true;
	return &writer;
}

void zm_op_writer_put(void *ctx, struct zm_writer *got)
{
	(void)ctx;
	CHECK(writing && got == &writer);
	writing = false;
}

static int by_handle(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The number of handles that occur once in a sorted list. */
static u64 count_single(const u64 *handles, u64 count)
{
	u64 at, single = 0;

	for (at = 0; at < count; at++)
		single += (!at || handles[at] != handles[at - 1]) &&
			  (at + 1 == count || handles[at] != handles[at + 1]);
	return single;
}

struct zm_slot fake_slot(struct zm_core *zm, u64 number)
{
	struct zm_entry *entry = &zm->entries[number];
	u64 attr = atomic64_read(&entry->attr);

	CHECK(!(attr & ZM_LOCK_MASK));
	return (struct zm_slot){ .value = entry->value, .attr = attr };
}

/* Compares the number of entries that the index says it could remove with the slots. */
static void check_singles(struct zm_core *zm, u64 *handles)
{
	u64 at, count = 0;

	for (at = 0; at < zm->nslots; at++)
		if (zm_kind(fake_slot(zm, at)) == ZM_INDEXED)
			handles[count++] = fake_slot(zm, at).value;
	qsort(handles, count, sizeof(*handles), by_handle);
	CHECK(zm_index_singles(&zm->index) == count_single(handles, count));
}

/* Compares all sums with a count over the slots. */
void fake_check(struct zm_core *zm, struct fake *fake)
{
	u64 *handles = malloc((zm->nslots + 1) * sizeof(*handles));
	s64 pages = 0, same = 0, huge = 0, merged = 0, merged_bytes = 0, bytes = 0;
	u64 at, objects = 0;

	for (at = 0; at < zm->nslots; at++) {
		struct zm_slot slot = fake_slot(zm, at);

		pages += zm_kind(slot) != ZM_EMPTY;
		same += zm_kind(slot) == ZM_SAME;
		if (!zm_has_object(slot))
			continue;
		huge += zm_len(slot) == PAGE_SIZE;
		handles[objects++] = slot.value;
	}
	qsort(handles, objects, sizeof(*handles), by_handle);
	for (at = 0; at < objects; at++) {
		bool again = at && handles[at] == handles[at - 1];

		merged += again;
		*(again ? &merged_bytes : &bytes) += object_of(handles[at])->len;
	}
	check_singles(zm, handles);
	free(handles);
	CHECK(atomic64_read(&zm->stats.pages) == pages);
	CHECK(atomic64_read(&zm->stats.same_pages) == same);
	CHECK(atomic64_read(&zm->stats.huge_pages) == huge);
	CHECK(atomic64_read(&zm->stats.merged_pages) == merged);
	CHECK(atomic64_read(&zm->stats.merged_bytes) == merged_bytes);
	CHECK(atomic64_read(&zm->stats.stored_bytes) == bytes);
	CHECK(atomic64_read(&fake->objects) == (s64)objects - merged);
	CHECK(atomic64_read(&fake->bytes) == bytes);
}
