// SPDX-License-Identifier: GPL-2.0-only
/* The core's tests: the name of each says what must hold. */
#include "model.h"

/* The number of repetitions: @n with pages of 4 KiB, fewer with larger ones. */
#define OFTEN(n) ((n) * 4096 / PAGE_SIZE)

static u64 dice_state = 88172645463325252ull;

static u64 dice(void)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return dice_state;
}

static void nothing(void *ctx)
{
	(void)ctx;
}

struct device {
	struct zm_core zm;
	struct fake fake;
};

static struct device *new_device(u64 slots)
{
	struct device *device = calloc(1, sizeof(*device));

	fake_refuse(0);
	CHECK(!zm_init(&device->zm, slots, &device->fake, FAKE_HUGE_LEN, 7));
	return device;
}

static void end_device(struct device *device)
{
	fake_check(&device->zm, &device->fake);
	zm_destroy(&device->zm);
	CHECK(!atomic64_read(&device->fake.objects));
	free(device);
}

/* A different page for each number, which compresses to 24 bytes. */
static void numbered(u64 number, void *page)
{
	memset(page, 0, PAGE_SIZE);
	memcpy(page, &number, 8);
	memcpy((u8 *)page + 16, &(u64){ ~number }, 8);
}

static void write_numbered(struct device *device, u64 slot, u64 number)
{
	u8 page[PAGE_SIZE];

	numbered(number, page);
	CHECK(!zm_write(&device->zm, slot, page, ZM_NO_DOMAIN));
}

static void read_numbered(struct device *device, u64 slot, u64 number)
{
	u8 page[PAGE_SIZE], want[PAGE_SIZE];

	numbered(number, want);
	CHECK(!zm_read(&device->zm, slot, page) && !memcmp(page, want, PAGE_SIZE));
}

static s64 merged(struct device *device)
{
	return atomic64_read(&device->zm.stats.merged_pages);
}

static void what_is_not_written_reads_as_zero(void)
{
	struct device *device = new_device(3);
	u8 page[PAGE_SIZE], zero[PAGE_SIZE] = { 0 };

	memset(page, 1, PAGE_SIZE);
	CHECK(!zm_read(&device->zm, 2, page) && !memcmp(page, zero, PAGE_SIZE));
	end_device(device);
}

static void any_operations_agree_with_the_model(void)
{
	u8 bytes[3000];
	u32 round, at;

	for (round = 0; round < OFTEN(2000); round++) {
		for (at = 0; at < sizeof(bytes); at++)
			bytes[at] = dice() >> 32;
		model_run(bytes, sizeof(bytes));
	}
}

static void inline_merging_stores_a_copy_once(void)
{
	struct device *device = new_device(1000);
	u64 at;

	zm_set_mode(&device->zm, ZM_INLINE);
	for (at = 0; at < 1000; at++)
		write_numbered(device, at, 1 + at % 10);
	CHECK(atomic64_read(&device->fake.objects) == 10 && merged(device) == 990);
	CHECK(atomic64_read(&device->zm.stats.hits) == 990);
	CHECK(atomic64_read(&device->zm.stats.misses) == 10);
	for (at = 0; at < 1000; at++)
		read_numbered(device, at, 1 + at % 10);
	end_device(device);
}

static void a_pass_finds_every_copy_and_keeps_two_bytes_for_each_shared_object(void)
{
	const u64 slots = 1 << 16;
	struct device *device = new_device(slots);
	s64 before = zm_index_bytes(&device->zm);
	u64 at;

	for (at = 0; at < slots; at++)
		write_numbered(device, at, at % (slots / 2));
	CHECK(!zm_merge(&device->zm, nothing, NULL));
	CHECK(merged(device) == (s64)slots / 2);
	CHECK(zm_index_bytes(&device->zm) - before <= slots + 8192);
	for (at = 0; at < slots; at++)
		read_numbered(device, at, at % (slots / 2));
	for (at = 0; at < slots; at++)
		zm_clear(&device->zm, at);
	CHECK((s64)zm_index_bytes(&device->zm) == before);
	end_device(device);
}

static void inline_metadata_is_at_most_32_bytes_for_each_object(void)
{
	const u64 slots = OFTEN(1 << 18);
	struct device *device = new_device(slots);
	double worst = 0, sum = 0;
	u64 at, looked = 0;

	zm_set_mode(&device->zm, ZM_INLINE);
	for (at = 1; at < slots; at++) {
		write_numbered(device, at, at);
		if (at >= 4096 && !(at & 1023)) {
			double each = (double)zm_index_bytes(&device->zm) / at;

			worst = each > worst ? each : worst;
			sum += each;
			looked++;
		}
	}
	printf("  index bytes for each object: %.1f on average, %.1f at most (4,096 to %llu objects)\n",
	       sum / looked, worst, (unsigned long long)slots);
	CHECK(worst <= 32.0);
	end_device(device);
}

/* From a full table, random entries are removed until so many in 1,000 are left. */
static void inline_metadata_is_at_most_33_bytes_for_each_object_at_every_fill(void)
{
	static const u32 fills[] = { 1000, 900, 750, 500, 300, 200, 100, 50, 20, 10, 5, 2, 0 };
	const u64 slots = OFTEN(1 << 18);
	struct device *device = new_device(slots);
	u64 *left = malloc(slots * sizeof(*left)), count = slots, at;
	s64 before = zm_index_bytes(&device->zm);
	double worst = 0;
	u32 fill;

	zm_set_mode(&device->zm, ZM_INLINE);
	for (at = 0; at < slots; at++) {
		left[at] = at;
		write_numbered(device, at, at + 1);
	}
	printf("  bytes for each object, at so many in 1,000:");
	for (fill = 0; fill < sizeof(fills) / sizeof(*fills); fill++) {
		while (count > slots * fills[fill] / 1000) {
			at = dice() % count;
			zm_clear(&device->zm, left[at]);
			left[at] = left[--count];
		}
		printf(" %u: %.1f", fills[fill], count ? (double)zm_index_bytes(&device->zm) / count : 0.0);
		if (count >= slots / 200)
			worst = max_t(double, worst, (double)zm_index_bytes(&device->zm) / count);
	}
	printf("\n");
	CHECK(worst <= 33.0);
	CHECK((s64)zm_index_bytes(&device->zm) == before);
	free(left);
	end_device(device);
}

/* With more copies than a counter can count, the next copy starts a second object. */
static void an_object_is_shared_as_often_as_can_be_counted(void)
{
	const u64 slots = 3 * 65535;
	struct device *device = new_device(slots);
	u64 at;

	for (at = 0; at < slots; at++)
		write_numbered(device, at, 5);
	CHECK(!zm_merge(&device->zm, nothing, NULL));
	CHECK(atomic64_read(&device->fake.objects) == 3);
	zm_set_mode(&device->zm, ZM_INLINE);
	for (at = 0; at < slots; at++)
		write_numbered(device, at, 6);
	CHECK(atomic64_read(&device->fake.objects) == (s64)(slots + ZM_REFS_MAX - 1) / ZM_REFS_MAX);
	for (at = 0; at < slots; at++)
		read_numbered(device, at, 6);
	end_device(device);
}

/*
 * Pages that were stored without a lookup are found after a pass, whether the pass merged them or
 * not.
 */
static void inline_merging_finds_copies_of_what_a_pass_left(void)
{
	struct device *device = new_device(1000);
	u64 at;

	for (at = 0; at < 800; at++)
		write_numbered(device, at, 1 + at % 100);
	for (; at < 850; at++)
		write_numbered(device, at, 1 + at);
	zm_set_mode(&device->zm, ZM_INLINE);
	CHECK(!zm_merge(&device->zm, nothing, NULL));
	CHECK(atomic64_read(&device->fake.objects) == 150 && merged(device) == 700);
	for (at = 850; at < 1000; at++)
		write_numbered(device, at, at < 950 ? at - 849 : at - 149);
	printf("  of 150 copies %lld were found\n", (long long)atomic64_read(&device->zm.stats.hits));
	CHECK(atomic64_read(&device->zm.stats.hits) == 150);
	CHECK(atomic64_read(&device->fake.objects) == 150 && merged(device) == 850);
	for (at = 0; at < 1000; at++)
		read_numbered(device, at, at < 800 ? 1 + at % 100 : at < 850 ? 1 + at : at < 950 ? at - 849 : at - 149);
	zm_set_mode(&device->zm, ZM_REQUEST);
	fake_check(&device->zm, &device->fake);
	end_device(device);
}

static void write_in_domain(struct device *device, u64 slot, u64 number, u32 domain)
{
	u8 page[PAGE_SIZE];

	numbered(number, page);
	CHECK(!zm_write(&device->zm, slot, page, domain));
}

/* Writes page 1 to slot n in domain n % 4; pages without a domain (0) are never merged. */
static void write_domains(struct device *device, u64 from, u64 to)
{
	for (; from < to; from++)
		write_in_domain(device, from, 1, from % 4);
}

/*
 * When pages are written, and by a pass: three objects for three domains, and one for each page
 * without a domain.
 */
static void pages_are_merged_within_their_domain(void)
{
	static const enum zm_mode modes[] = { ZM_REQUEST, ZM_INLINE, ZM_ADAPTIVE };
	struct device *device;
	u32 mode;

	for (mode = 0; mode < 3; mode++) {
		device = new_device(80);
		CHECK(!zm_use_domains(&device->zm));
		zm_set_mode(&device->zm, modes[mode]);
		write_domains(device, 0, 40);
		if (modes[mode] == ZM_REQUEST)
			CHECK(!zm_merge(&device->zm, nothing, NULL));
		CHECK(atomic64_read(&device->fake.objects) == 3 + 10 && merged(device) == 27);
		write_domains(device, 40, 80);
		CHECK(!zm_merge(&device->zm, nothing, NULL));
		CHECK(atomic64_read(&device->fake.objects) == 3 + 20 && merged(device) == 57);
		/* A slot takes the domain of the last write to it. */
		write_in_domain(device, 0, 1, 3);
		CHECK(!zm_merge(&device->zm, nothing, NULL));
		CHECK(merged(device) == 58);
		end_device(device);
	}
}

static void the_index_is_given_back(void)
{
	struct device *device = new_device(1 << 14);
	s64 before = zm_index_bytes(&device->zm);
	u64 at;

	zm_set_mode(&device->zm, ZM_INLINE);
	for (at = 0; at < 1 << 14; at++)
		write_numbered(device, at, at + 1);
	zm_set_mode(&device->zm, ZM_REQUEST);
	CHECK((s64)zm_index_bytes(&device->zm) == before);
	for (at = 0; at < 1 << 14; at++)
		read_numbered(device, at, at + 1);
	end_device(device);
}

/* Under memory pressure only the entries of shared objects stay. */
static void entries_that_nobody_shares_are_forgotten(void)
{
	const u64 slots = OFTEN(1 << 16);
	struct device *device = new_device(slots);
	s64 before = zm_index_bytes(&device->zm);
	u64 at, shared = slots / 8, singles = slots - 2 * shared;

	zm_set_mode(&device->zm, ZM_INLINE);
	for (at = 0; at < slots; at++)
		write_numbered(device, at, at < 2 * shared ? 1 + at / 2 : 1 + at);
	CHECK(zm_index_singles(&device->zm.index) == singles);
	/* Removes no more than requested, and works without memory for smaller leaves. */
	fake_refuse(1);
	CHECK(zm_forget_some(&device->zm, 100) <= 100);
	while (zm_index_singles(&device->zm.index) > singles / 2)
		zm_forget_some(&device->zm, 100);
	fake_refuse(0);
	fake_check(&device->zm, &device->fake);
	while (zm_index_singles(&device->zm.index))
		zm_forget_some(&device->zm, 1000);
	printf("  %llu shared entries, %llu bytes each\n", (unsigned long long)shared,
	       (unsigned long long)(zm_index_bytes(&device->zm) - before) / shared);
	CHECK(zm_index_bytes(&device->zm) - before <= 33 * shared && merged(device) == (s64)shared);
	CHECK(!zm_forget_some(&device->zm, slots));
	for (at = 0; at < slots; at++)
		read_numbered(device, at, at < 2 * shared ? 1 + at / 2 : 1 + at);
	end_device(device);
}

/*
 * Counters that are far from each other can be changed at the same time: they have different locks.
 */
static void references_to_far_counters_take_different_locks(void)
{
	struct zm_counters counters;
	const spinlock_t *lock;
	u32 number[5000], at;

	CHECK(!zm_counters_init(&counters, 1 << 16));
	for (at = 0; at < 5000; at++) {
		zm_counters_reserve(&counters, GFP_KERNEL);
		CHECK(zm_counter_new(&counters, &number[at]));
	}
	CHECK(zm_counter_get(&counters, number[0]));
	lock = zm_test_last_lock;
	CHECK(zm_counter_get(&counters, number[1]) && zm_test_last_lock == lock);
	CHECK(zm_counter_get(&counters, number[4999]) && zm_test_last_lock != lock);
	CHECK(!zm_counter_put(&counters, number[0]) && zm_test_last_lock == lock);
	CHECK(!zm_counter_full(&counters, number[4999]) && zm_test_last_lock != lock);
	zm_counters_destroy(&counters);
}

/* Numbers are reused, the lowest chunks first, and all memory is freed. */
static void counters_count(void)
{
	static u32 count[1 << 15];	/* by number; 0: free */
	struct zm_counters counters;
	u32 at, number, used = 0, highest = 0, round;

	CHECK(!zm_counters_init(&counters, 1 << 14));
	for (round = 0; round < 400000; round++) {
		number = dice() % (1 << 15);
		if (dice() % 8 < (round / 50000 % 2 ? 1 : 5)) {
			zm_counters_reserve(&counters, GFP_KERNEL);
			if (!zm_counter_new(&counters, &number))
				continue;
			CHECK(number < 1 << 15 && !count[number]);
			count[number] = 2;
			used++;
		} else if (count[number] && dice() % 4 == 0) {
			CHECK(zm_counter_get(&counters, number) && !zm_counter_full(&counters, number));
			count[number]++;
		} else if (count[number]) {
			CHECK(zm_counter_put(&counters, number) == !--count[number]);
			used -= !count[number];
		}
	}
	CHECK(used > 100);
	for (number = 0; number < 1 << 15; number++)
		for (at = count[number]; at; at--)
			CHECK(zm_counter_put(&counters, number) == (at == 1));
	CHECK(!atomic64_read(&counters.bytes));
	for (at = 0; at < 1000; at++) {
		zm_counters_reserve(&counters, GFP_KERNEL);
		CHECK(zm_counter_new(&counters, &number));
		highest = max_t(u32, highest, number);
	}
	CHECK(highest < 2048);
	zm_counters_destroy(&counters);
}

static void without_memory_for_the_index_pages_are_stored_unmerged(void)
{
	struct device *device = new_device(100);
	u64 at;

	zm_set_mode(&device->zm, ZM_INLINE);
	for (at = 0; at < 100; at++) {
		u8 page[PAGE_SIZE];
		u64 handles = atomic64_read(&device->fake.objects);

		numbered(3, page);
		/* The object is the first allocation, its index entry the second and third. */
		fake_refuse(2);
		CHECK(!zm_write(&device->zm, at, page, ZM_NO_DOMAIN));
		CHECK(atomic64_read(&device->fake.objects) == (s64)handles + 1);
		CHECK(zm_kind(fake_slot(&device->zm, at)) == ZM_PLAIN);
	}
	fake_refuse(0);
	end_device(device);
}

static struct device *freed;
static u64 freed_slot;

/* Swap frees the slot whose object is being read. */
static void free_slot(void)
{
	zm_clear_at_once(&freed->zm, freed_slot);
}

/*
 * A slot is locked while its object is read; freeing it meanwhile does not wait, and leaks no
 * memory.
 */
static void a_slot_that_is_freed_while_it_is_read_is_empty_afterwards(void)
{
	struct device *device = freed = new_device(2);
	u8 page[PAGE_SIZE], zero[PAGE_SIZE] = { 0 };

	write_numbered(device, 0, 7);
	freed_slot = 0;
	fake_loaded = free_slot;
	read_numbered(device, 0, 7);
	fake_loaded = NULL;
	CHECK(!atomic64_read(&device->fake.objects) && !zm_read(&device->zm, 0, page));
	CHECK(!memcmp(page, zero, PAGE_SIZE));
	write_numbered(device, 0, 8);
	read_numbered(device, 0, 8);
	end_device(device);
}

/*
 * The same for the two slots that a pass reads: the one that is hashed, and the one that it is
 * compared with.
 */
static void slots_that_are_freed_during_a_pass_are_empty_afterwards(void)
{
	struct device *device = freed = new_device(3);
	u64 kept;

	for (freed_slot = 0; freed_slot < 3; freed_slot++) {
		for (kept = 0; kept < 3; kept++)
			write_numbered(device, kept, 7);
		fake_loaded = free_slot;
		CHECK(!zm_merge(&device->zm, nothing, NULL));
		fake_loaded = NULL;
		fake_check(&device->zm, &device->fake);
		CHECK(!zm_has_object(fake_slot(&device->zm, freed_slot)));
		for (kept = 0; kept < 3; kept++)
			if (kept != freed_slot)
				read_numbered(device, kept, 7);
	}
	end_device(device);
}

static u64 forgotten_while_locked;

static void forget(void)
{
	forgotten_while_locked += zm_forget_some(&freed->zm, 2);
}

/* The shrinker never waits for a slot. */
static void entries_of_a_locked_slot_are_not_forgotten(void)
{
	struct device *device = freed = new_device(2);

	zm_set_mode(&device->zm, ZM_INLINE);
	write_numbered(device, 0, 7);
	write_numbered(device, 1, 8);
	fake_loaded = forget;
	read_numbered(device, 0, 7);
	fake_loaded = NULL;
	CHECK(forgotten_while_locked == 1 && zm_index_singles(&device->zm.index) == 1);
	CHECK(zm_kind(fake_slot(&device->zm, 0)) == ZM_INDEXED && zm_kind(fake_slot(&device->zm, 1)) == ZM_PLAIN);
	end_device(device);
}

static void a_failed_write_leaves_the_slot_as_it_was(void)
{
	struct device *device = new_device(2);
	u8 page[PAGE_SIZE];

	write_numbered(device, 0, 9);
	device->fake.memory = 24;
	numbered(10, page);
	CHECK(zm_write(&device->zm, 0, page, ZM_NO_DOMAIN) == -ENOMEM);
	read_numbered(device, 0, 9);
	end_device(device);
}

/* In the laws of the limit: slots of the victim, then as many of the attacker. */
#define HALF 60u

/* Half of the pages compress to 24 bytes, and half do not compress. */
static void guessed(u64 number, void *page)
{
	if (number & 1)
		memset(page, 0xa5, PAGE_SIZE);
	else
		memset(page, 0, PAGE_SIZE);
	memcpy(page, &number, 8);
	memcpy((u8 *)page + 16, &(u64){ ~number }, 8);
}

/* A device that stores one page for each even or odd pair of numbers from @first on. */
static struct device *victim_device(enum zm_mode mode, u64 first)
{
	struct device *device = new_device(2 * HALF);
	u8 page[PAGE_SIZE];
	u64 at;

	zm_set_mode(&device->zm, mode);
	for (at = 0; at < HALF; at++) {
		guessed(first + at, page);
		CHECK(!zm_write(&device->zm, at, page, ZM_NO_DOMAIN));
	}
	return device;
}

/* Writes or clears a slot of the attacker, or runs a pass; what the attacker sees of that. */
static int attack_once(struct device *device, u64 what)
{
	u64 slot = HALF + (what >> 8) % HALF;
	u8 page[PAGE_SIZE];

	if (what % 16 == 0) {
		zm_clear(&device->zm, slot);
		return 0;
	}
	if (what % 16 == 1 && atomic_read(&device->zm.mode) != ZM_OFF)
		return zm_merge(&device->zm, nothing, NULL);
	guessed(1000 + (what >> 16) % (2 * HALF), page);
	return zm_write(&device->zm, slot, page, ZM_NO_DOMAIN);
}

/*
 * One device stores pages that the attacker guesses, and the other does not: every result is the
 * same.
 */
static void at_the_limit_no_result_depends_on_what_others_store(void)
{
	u32 round, step, failed = 0, passed = 0;

	for (round = 0; round < OFTEN(150); round++) {
		enum zm_mode mode = dice() % (ZM_ADAPTIVE + 1);
		struct device *guessed_right = victim_device(mode, 1000), *wrong = victim_device(mode, 5000);
		u64 limit = (HALF / 2 + dice() % HALF) * PAGE_SIZE + dice() % PAGE_SIZE;

		guessed_right->fake.limit = limit;
		wrong->fake.limit = limit;
		for (step = 0; step < 200; step++) {
			u64 what = dice() >> 8;
			int err = attack_once(guessed_right, what);

			CHECK(err == attack_once(wrong, what));
			*(err ? &failed : &passed) += 1;
		}
		end_device(guessed_right);
		end_device(wrong);
	}
	printf("  %u steps failed and %u succeeded, as with other pages stored\n", failed, passed);
	CHECK(failed > passed / 20 && passed > failed / 20);
}

static void memory_that_has_to_be_waited_for_is_waited_for(void)
{
	struct device *device = new_device(64);
	u64 at;

	device->fake.shy = true;
	for (at = 0; at < 64; at++)
		write_numbered(device, at, at + 1);
	for (at = 0; at < 64; at++)
		read_numbered(device, at, at + 1);
	end_device(device);
}

static void adaptive_mode_stops_looking_and_resumes(void)
{
	const u64 slots = 1 << 15;
	struct device *device = new_device(slots);
	u64 at, looked;

	zm_set_mode(&device->zm, ZM_ADAPTIVE);
	for (at = 0; at < slots; at++)
		write_numbered(device, at, at + 1);
	looked = atomic64_read(&device->zm.stats.misses);
	printf("  without copies adaptive mode looked at %llu of %llu pages\n",
	       (unsigned long long)looked, (unsigned long long)slots);
	CHECK(looked < slots / 8 && zm_asleep(&device->zm));
	for (at = 0; at < slots; at++)
		write_numbered(device, at, dice() % 64);
	CHECK(!zm_asleep(&device->zm));
	CHECK(merged(device) > (s64)slots / 2);
	end_device(device);
}

/* Pages written to a device in adaptive mode, by up to four CPUs that interrupt each other. */
struct stream {
	struct device *device;
	u64 written;		/* number of pages */
	u64 distinct;		/* number of the last new page */
	u32 hot;		/* copies are of this many pages; 0: of any earlier page */
	u32 percent;		/* share of copies */
	u32 depth;		/* number of interrupted CPUs */
	u64 fell_asleep;	/* number of times */
	bool asleep;
};

static struct stream stream;

#define STREAM_SLOTS	(1ull << 15)

static void stream_write(void)
{
	u64 number = ++stream.distinct, slot = stream.written++ % STREAM_SLOTS;

	if (dice() % 100 < stream.percent)
		number = stream.hot ? 1ull << 40 | dice() % stream.hot : 1 + dice() % number;
	write_numbered(stream.device, slot, number);
}

/* Between any two steps of this CPU, another one may write a page. */
static void stream_interrupt(void)
{
	bool asleep;

	zm_test_interrupt = NULL;
	asleep = zm_asleep(&stream.device->zm);
	zm_test_interrupt = stream_interrupt;
	stream.fell_asleep += asleep && !stream.asleep;
	stream.asleep = asleep;
	if (stream.depth == 3 || fake_is_busy() || dice() % 16)
		return;
	stream.depth++;
	stream_write();
	stream.depth--;
}

static void stream_run(u64 pages, u32 percent, u32 hot)
{
	u64 end = stream.written + pages;

	stream.percent = percent;
	stream.hot = hot;
	zm_test_interrupt = stream_interrupt;
	while (stream.written < end)
		stream_write();
	zm_test_interrupt = NULL;
}

/* Writes until adaptive mode is awake, at most @most pages. */
static u64 stream_until_awake(u64 most, u32 percent, u32 hot)
{
	u64 begin = stream.written;

	while (zm_asleep(&stream.device->zm) && stream.written - begin < most)
		stream_run(1, percent, hot);
	return stream.written - begin;
}

static void new_stream(u32 seed)
{
	stream = (struct stream){ .device = new_device(STREAM_SLOTS) };
	stream.device->zm.seed = seed * 0x9e3779b97f4a7c15ull;
	dice_state = 88172645463325252ull + seed * 0x9e3779b97f4a7c15ull;
	zm_set_mode(&stream.device->zm, ZM_ADAPTIVE);
}

#define SEEDS	((u32)OFTEN(64))

static void adaptive_mode_stays_awake_while_half_of_all_pages_are_copies(void)
{
	u64 times = 0, slept = 0;
	u32 seed;

	for (seed = 0; seed < SEEDS; seed++) {
		new_stream(seed);
		stream_run(1 << 13, 50, 0);
		times += stream.fell_asleep;
		slept += stream.fell_asleep > 0;
		end_device(stream.device);
	}
	printf("  with 50 %% copies %llu of %u seeds fell asleep, %llu times\n",
	       (unsigned long long)slept, SEEDS, (unsigned long long)times);
	CHECK(!slept);
}

/*
 * The number of seeds for which adaptive mode is awake within 4,096 pages after copies return;
 * *longest: the slowest of them.
 */
static u32 seeds_awake_in_time(u32 percent, u32 hot, u64 *longest)
{
	u32 seed, awake = 0;
	u64 pages;

	*longest = 0;
	for (seed = 0; seed < SEEDS; seed++) {
		new_stream(seed);
		/*
		 * 13 pages more for each seed, so that copies return in a different phase of the
		 * sampling.
		 */
		stream_run(3000 + 13 * seed, 0, 0);
		CHECK(zm_asleep(&stream.device->zm));
		pages = stream_until_awake(4096, percent, hot);
		awake += !zm_asleep(&stream.device->zm);
		*longest = pages > *longest ? pages : *longest;
		end_device(stream.device);
	}
	return awake;
}

static void adaptive_mode_is_awake_4096_pages_after_copies_return(void)
{
	static const struct { u32 percent, hot; } cases[] = { { 50, 0 }, { 50, 1 }, { 80, 1 }, { 80, 4 }, { 25, 16 } };
	u32 at, awake = 0, seeds;
	u64 longest;

	for (at = 0; at < sizeof(cases) / sizeof(*cases); at++) {
		seeds = seeds_awake_in_time(cases[at].percent, cases[at].hot, &longest);
		printf("  %u %% copies of %u pages (0: of all): %u of %u seeds awake, after at most %llu pages\n",
		       cases[at].percent, cases[at].hot, seeds, SEEDS, (unsigned long long)longest);
		awake += seeds;
	}
	CHECK(awake == at * SEEDS);
}

static struct {
	struct device *device;
	u32 step;	/* the step at which slot 0 is cleared */
	bool below;	/* whether a sum was negative */
} race;

static void race_interrupt(void)
{
	struct zm_stats *stats = &race.device->zm.stats;

	if (fake_is_busy() || race.step-- != 1)
		return;
	zm_test_interrupt = NULL;
	zm_clear(&race.device->zm, 0);
	race.below = race.below || atomic64_read(&stats->merged_pages) < 0;
	CHECK(zm_sum(&stats->pages) <= 2 && zm_sum(&stats->merged_pages) <= 1);
	CHECK(zm_sum(&stats->merged_bytes) <= PAGE_SIZE && zm_sum(&stats->stored_bytes) <= 2 * PAGE_SIZE);
}

/*
 * One CPU finds the copy in slot 0, and another one clears that slot before the first has updated
 * the sums.
 */
static void no_sum_reads_below_zero(void)
{
	bool below = false;
	u32 step;

	for (step = 1; step <= 30; step++) {
		race.device = new_device(2);
		race.below = false;
		zm_set_mode(&race.device->zm, ZM_INLINE);
		write_numbered(race.device, 0, 5);
		race.step = step;
		zm_test_interrupt = race_interrupt;
		write_numbered(race.device, 1, 5);
		zm_test_interrupt = NULL;
		read_numbered(race.device, 1, 5);
		below = below || race.below;
		end_device(race.device);
	}
	CHECK(below);
}

static void an_object_is_stored_on_the_node_of_its_page(void)
{
	struct device *device = new_device(2);
	u8 page[PAGE_SIZE];

	numbered(1, page);
	CHECK(!zm_write(&device->zm, 0, page, ZM_NO_DOMAIN) && device->fake.page == page);
	device->fake.page = NULL;
	device->fake.shy = true;
	CHECK(!zm_write(&device->zm, 1, page, ZM_NO_DOMAIN) && device->fake.page == page);
	end_device(device);
}

static void one_changed_bit_changes_the_hash(void)
{
	u8 page[PAGE_SIZE];
	u64 before;
	u32 at, len;

	for (at = 0; at < PAGE_SIZE; at++)
		page[at] = dice();
	for (len = 0; len <= PAGE_SIZE; len += 1 + len / 7) {
		before = zm_hash(page, len, 3);
		CHECK(before != zm_hash(page, len, 4));
		for (at = 0; at < len * 8; at += 1 + at / 64) {
			page[at / 8] ^= 1 << at % 8;
			CHECK(zm_hash(page, len, 3) >> 32 != before >> 32);
			CHECK(!zm_equal(page, (u8[PAGE_SIZE]){ 0 }, len) || len < 8);
			page[at / 8] ^= 1 << at % 8;
		}
	}
}

static int by_number(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return (x > y) - (x < y);
}

/*
 * Of n tags, about n * n / 2^33 pairs are equal by chance; for pages with a counter it must not be
 * much more.
 */
static void tags_of_plain_pages_collide_as_by_chance(void)
{
	const u32 n = OFTEN(1 << 18);
	u32 *tags = malloc(n * sizeof(*tags)), at, equal = 0;
	u8 page[PAGE_SIZE] = { 0 };

	for (at = 0; at < n; at++) {
		numbered(at, page);
		tags[at] = zm_hash(page, PAGE_SIZE, 1) >> 32;
	}
	qsort(tags, n, sizeof(*tags), by_number);
	for (at = 1; at < n; at++)
		equal += tags[at] == tags[at - 1];
	printf("  %u tags, %u equal pairs (%llu by chance)\n", n, equal, (unsigned long long)n * n >> 33);
	CHECK(equal <= 6 + 3 * ((u64)n * n >> 33));
	free(tags);
}

static void init_survives_every_failed_allocation(void)
{
	struct zm_core zm;
	struct fake fake = { 0 };
	unsigned int n;

	for (n = 1; n <= 3; n++) {
		fake_refuse(n);
		CHECK(zm_init(&zm, 64, &fake, FAKE_HUGE_LEN, 1) == -ENOMEM);
	}
	/* There is no fourth allocation. */
	fake_refuse(4);
	CHECK(!zm_init(&zm, 64, &fake, FAKE_HUGE_LEN, 1));
	fake_refuse(1);
	CHECK(zm_use_domains(&zm) == -ENOMEM);
	fake_refuse(0);
	CHECK(!zm.domains);
	zm_destroy(&zm);
	CHECK(zm_init(&zm, 0, &fake, FAKE_HUGE_LEN, 1) == -EINVAL);
	CHECK(zm_init(&zm, 1ull << 32, &fake, FAKE_HUGE_LEN, 1) == -EINVAL);
}

#define LAW(name) { #name, name }

int main(void)
{
	static const struct { const char *name; void (*run)(void); } laws[] = {
		LAW(what_is_not_written_reads_as_zero),
		LAW(any_operations_agree_with_the_model),
		LAW(inline_merging_stores_a_copy_once),
		LAW(a_pass_finds_every_copy_and_keeps_two_bytes_for_each_shared_object),
		LAW(inline_metadata_is_at_most_32_bytes_for_each_object),
		LAW(inline_metadata_is_at_most_33_bytes_for_each_object_at_every_fill),
		LAW(an_object_is_shared_as_often_as_can_be_counted),
		LAW(inline_merging_finds_copies_of_what_a_pass_left),
		LAW(pages_are_merged_within_their_domain),
		LAW(the_index_is_given_back),
		LAW(entries_that_nobody_shares_are_forgotten),
		LAW(references_to_far_counters_take_different_locks),
		LAW(counters_count),
		LAW(without_memory_for_the_index_pages_are_stored_unmerged),
		LAW(a_slot_that_is_freed_while_it_is_read_is_empty_afterwards),
		LAW(slots_that_are_freed_during_a_pass_are_empty_afterwards),
		LAW(entries_of_a_locked_slot_are_not_forgotten),
		LAW(a_failed_write_leaves_the_slot_as_it_was),
		LAW(memory_that_has_to_be_waited_for_is_waited_for),
		LAW(adaptive_mode_stops_looking_and_resumes),
		LAW(adaptive_mode_stays_awake_while_half_of_all_pages_are_copies),
		LAW(adaptive_mode_is_awake_4096_pages_after_copies_return),
		LAW(no_sum_reads_below_zero),
		LAW(an_object_is_stored_on_the_node_of_its_page),
		LAW(one_changed_bit_changes_the_hash),
		LAW(tags_of_plain_pages_collide_as_by_chance),
		LAW(init_survives_every_failed_allocation),
		LAW(at_the_limit_no_result_depends_on_what_others_store),
	};
	size_t at;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (at = 0; at < sizeof(laws) / sizeof(*laws); at++) {
		printf("%s\n", laws[at].name);
		laws[at].run();
	}
	printf("%zu laws hold\n", at);
	return 0;
}
