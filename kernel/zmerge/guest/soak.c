// SPDX-License-Identifier: GPL-2.0-only
/*
 * A soak test of /dev/zmerge0: four threads write and read pages whose expected contents they know,
 * another one writes all kinds of values to the device's files, and one more takes a CPU offline or
 * allocates nearly all memory during passes. Then the device is reset or removed, while others open
 * it and use its files, after which all its sums must be zero. This repeats.
 *
 *	soak disk PAGES EPOCH [MINUTES]	until PAGES pages were written, read or cleared, or for MINUTES minutes; a
 *					reset after every EPOCH operations of the workers
 *	soak files FOLDER OPERATIONS	four files in FOLDER are written, truncated, punched and mapped, and compared
 *					with copies in memory
 *
 * An I/O may fail, because allocations are made to fail and a limit is set: then each page has its
 * old or its new contents. Exits with 1 if anything is wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define WORKERS 4
#define CHUNK 32			/* pages; chunks of different workers alternate */
#define CHUNKS_EACH 32
#define PAGES (WORKERS * CHUNKS_EACH * CHUNK)
#define IDS 512
#define DEVICE "/dev/zmerge0"
#define FILES "/sys/block/zmerge0/"
#define CONTROL "/sys/class/zmerge-control/"
#define GROUPS "/sys/fs/cgroup/"
#define CPU "/sys/devices/system/cpu/cpu1/online"
#define MIB 1048576l
#define LEFT (160 * MIB)		/* memory left for everything else */
#define PRESSED (6 * MIB)		/* memory left under pressure */

#define DIE(...) do { printf("not so: " __VA_ARGS__); printf(" (%s:%d)\n", __func__, __LINE__); exit(1); } while (0)
#define MUST(x) do { if (!(x)) DIE("%s: %s", #x, strerror(errno)); } while (0)

struct worker {
	pthread_t thread;
	unsigned int me;
	uint64_t dice;
	unsigned long operations, wanted, failed, pages;
	int device;
	uint8_t *buffer, *other;
	uint16_t ids[CHUNKS_EACH][CHUNK];
};

static uint8_t (*contents)[PAGE];	/* by ID; 0 is zeros */
static volatile bool over;
static unsigned long refusals, turns, resets, removals, offlines, not_online, shrunk, pokes;
/* Number of events that began during a pass; for offlines, that also ended during it. */
static struct {
	unsigned long stops, offlines, squeezes, resets, removals;
} in_pass;

static uint64_t roll(uint64_t *dice)
{
	*dice ^= *dice << 13;
	*dice ^= *dice >> 7;
	*dice ^= *dice << 17;
	return *dice >> 8;
}

static void make_contents(void)
{
	uint64_t dice = 4711;
	int id, at;

	contents = mmap(NULL, IDS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(contents != MAP_FAILED);
	for (id = 1; id < IDS; id++) {
		uint8_t *page = contents[id];

		for (at = 0; at < PAGE; at++)
			page[at] = id % 8 == 1 ? (uint64_t)id : id % 8 == 2 ? roll(&dice) :
				   at % (8 + id % 5 * 16) ? (uint64_t)at / (1 + id % 7) : roll(&dice) % 16;
		/* Some pages differ from the previous one in a byte near their end. */
		if (id % 8 == 5) {
			memcpy(page, contents[id - 1], PAGE);
			page[PAGE - 1 - id % 3] ^= 0x55;
		}
	}
}

static uint16_t some_id(struct worker *worker)
{
	return roll(&worker->dice) % (roll(&worker->dice) % 2 ? 48 : IDS);
}

static off_t place(struct worker *worker, int chunk, int page)
{
	return ((off_t)(chunk * WORKERS + worker->me) * CHUNK + page) * PAGE;
}

static void read_all(struct worker *worker, uint8_t *to, int chunk, int page, int count)
{
	int tries;

	for (tries = 0; tries < 10000; tries++)
		if (pread(worker->device, to, count * PAGE, place(worker, chunk, page)) == count * PAGE)
			return;
	DIE("worker %u cannot read: %s", worker->me, strerror(errno));
}

static void look(struct worker *worker, int chunk, int page, int count, bool split)
{
	uint8_t *to = worker->buffer + (split ? 512 : 0);
	int at;

	worker->pages += count;
	read_all(worker, to, chunk, page, count);
	for (at = 0; at < count; at++)
		if (memcmp(to + at * PAGE, contents[worker->ids[chunk][page + at]], PAGE))
			DIE("worker %u, chunk %d, page %d: other bytes", worker->me, chunk, page + at);
}

/* After a failed request, each page must have its old or its new contents. */
static void settle(struct worker *worker, int chunk, int page, int count, const uint16_t *wanted)
{
	int at;

	worker->failed++;
	for (at = 0; at < count; at++) {
		uint16_t *id = &worker->ids[chunk][page + at];

		read_all(worker, worker->other, chunk, page + at, 1);
		if (!memcmp(worker->other, contents[wanted[at]], PAGE))
			*id = wanted[at];
		else if (memcmp(worker->other, contents[*id], PAGE))
			DIE("worker %u: a failed write left other bytes", worker->me);
	}
}

static void change(struct worker *worker, int chunk, int page, int count, bool split)
{
	uint8_t *from = worker->buffer + (split ? 512 : 0);
	uint16_t wanted[CHUNK];
	int at;

	worker->pages += count;
	for (at = 0; at < count; at++) {
		wanted[at] = some_id(worker);
		memcpy(from + at * PAGE, contents[wanted[at]], PAGE);
	}
	if (pwrite(worker->device, from, count * PAGE, place(worker, chunk, page)) == count * PAGE)
		memcpy(&worker->ids[chunk][page], wanted, count * sizeof(*wanted));
	else
		settle(worker, chunk, page, count, wanted);
}

static void empty(struct worker *worker, int chunk, int page, int count, unsigned long how)
{
	uint64_t range[2] = { place(worker, chunk, page), (uint64_t)count * PAGE };
	uint16_t zeros[CHUNK] = { 0 };

	worker->pages += count;
	if (!ioctl(worker->device, how, range))
		memset(&worker->ids[chunk][page], 0, count * sizeof(*zeros));
	else
		settle(worker, chunk, page, count, zeros);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (; worker->operations < worker->wanted; worker->operations++) {
		int chunk = roll(&worker->dice) % CHUNKS_EACH, page = roll(&worker->dice) % CHUNK;
		int many = roll(&worker->dice) % 2 ? 1 : 1 + roll(&worker->dice) % (CHUNK - page);
		bool split = roll(&worker->dice) % 32 == 0;
		int what = roll(&worker->dice) % 16;

		if (what < 8)
			change(worker, chunk, page, many, split);
		else if (what < 14)
			look(worker, chunk, page, many, split);
		else
			empty(worker, chunk, page, many, what == 14 ? BLKDISCARD : BLKZEROOUT);
	}
	return NULL;
}

static int put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY), err = 0;

	if (file < 0)
		return errno;
	if (write(file, text, strlen(text)) < 0)
		err = errno;
	close(file);
	return err;
}

static void get(const char *name, char *text, size_t size)
{
	char path[128];
	ssize_t len;
	int file;

	snprintf(path, sizeof(path), FILES "%s", name);
	file = open(path, O_RDONLY);
	MUST(file >= 0);
	len = read(file, text, size - 1);
	MUST(len >= 0);
	text[len] = 0;
	close(file);
}

static const char *const values[] = {
	"mm_stat", "io_stat", "merge", "merge_mode", "merged_pages", "merged_bytes", "index_bytes", "merge_hits",
	"merge_misses", "merge_budget", "merge_rate", "merge_domain", "comp_algorithm", "disksize", "initstate",
};
static const char *const modes[] = { "off", "request", "inline", "adaptive" };
static const char *const junk[] = { "x", "-1", "", "99999999999999999999", "1 1", "lz4", "\xff\x01" };

#define OF(list, dice) list[roll(dice) % (sizeof(list) / sizeof(*list))]

/* Tries what must be refused while the device is open. */
static void refuse(uint64_t *dice)
{
	static const char *const settings[] = { "disksize", "comp_algorithm", "merge_mode", "mem_limit", "algorithm_params",
					       "merge_budget", "merge_rate", "merge_domain" };
	char path[128];

	snprintf(path, sizeof(path), FILES "%s", OF(settings, dice));
	switch (roll(dice) % 3) {
	case 0:
		if (put(FILES "reset", "1") != EBUSY)
			DIE("an open device was reset");
		break;
	case 1:
		if (put(CONTROL "hot_remove", "0") != EBUSY)
			DIE("an open device was removed");
		break;
	default:
		put(path, OF(junk, dice));
	}
	refusals++;
}

static unsigned long number(const char *name)
{
	char text[64];

	get(name, text, sizeof(text));
	return strtoul(text, NULL, 10);
}

/* Whether a pass is running and has slots left. */
static bool merging(void)
{
	return number("merge");
}

/* Bringing a CPU online allocates memory, also in the module, so it may fail and is repeated. */
static void cpu_offline_online(void)
{
	int tries;

	if (!put(CPU, "0"))
		offlines++;
	usleep(1000);
	for (tries = 0; put(CPU, "1"); tries++, not_online++) {
		if (tries == 1000)
			DIE("the CPU stays offline: %s", strerror(errno));
		usleep(10000);
	}
}

/* Dropping slab caches also runs the shrinker of the index. */
static void drop_caches(void)
{
	unsigned long before = number("index_bytes");

	put("/proc/sys/vm/drop_caches", "3");
	if (number("index_bytes") < before)
		shrunk++;
}

static long available(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[256];
	long kib = 0;

	MUST(file);
	while (fgets(line, sizeof(line), file) && sscanf(line, "MemAvailable: %ld", &kib) != 1)
		;
	fclose(file);
	return kib * 1024;
}

/* Allocates memory until only @left is available. */
static void take_memory(long left)
{
	long size;
	char *part;

	while ((size = (available() - left) / 2) > MIB) {
		part = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (part == MAP_FAILED)
			return;
		madvise(part, size, MADV_HUGEPAGE);
		memset(part, 1, size);
	}
}

static pid_t fork_victim(void)
{
	pid_t child = fork();

	MUST(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		put("/proc/self/oom_score_adj", "1000");
	}
	return child;
}

/*
 * The socket to the process that allocates memory. It is forked before any thread is started, and
 * answers each byte with a byte.
 */
static int pressure;

static void press(int orders)
{
	char byte;

	take_memory(LEFT);
	while (write(orders, "", 1) == 1 && read(orders, &byte, 1) == 1) {
		pid_t child = fork_victim();

		if (!child) {
			take_memory(PRESSED);
			usleep(100000);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	_exit(0);
}

static void start_pressure(void)
{
	int ends[2];
	char byte;

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	if (!fork_victim()) {
		close(ends[0]);
		press(ends[1]);
	}
	close(ends[1]);
	pressure = ends[0];
	MUST(read(pressure, &byte, 1) == 1);
}

static void squeeze(void)
{
	char byte;

	MUST(write(pressure, "", 1) == 1 && read(pressure, &byte, 1) == 1);
}

static void turn(uint64_t *dice)
{
	static const char *const budgets[] = { "16K", "24K", "1M" }, *const rates[] = { "0", "0", "100000", "1000" };
	char text[4096];

	switch (roll(dice) % 14) {
	case 0 ... 2:
		put(FILES "merge", roll(dice) % 2 ? "1" : "keep");
		break;
	case 12:
		MUST(!put(FILES "merge", "0"));
		break;
	case 13:
		MUST(!put(FILES "merge_budget", OF(budgets, dice)) && !put(FILES "merge_rate", OF(rates, dice)));
		break;
	case 3 ... 4:
		MUST(!put(FILES "merge_mode", OF(modes, dice)));
		break;
	case 5:
		MUST(!put(FILES "compact", "1"));
		break;
	case 6:
		MUST(!put(FILES "mem_limit", "1M"));
		usleep(2000);
		MUST(!put(FILES "mem_limit", "0"));
		break;
	case 7:
		drop_caches();
		break;
	case 8:
		refuse(dice);
		break;
	case 9:
		refuse(dice);
		break;
	default:
		get(OF(values, dice), text, sizeof(text));
	}
	turns++;
}

static void *disturb(void *arg)
{
	uint64_t dice = 77 + (uintptr_t)arg;

	while (!over) {
		turn(&dice);
		usleep(200000);
	}
	put(FILES "mem_limit", "0");
	return NULL;
}

/* Starts a pass that takes seconds; false if none is running then, as in the mode off. */
static bool start_slow_pass(void)
{
	MUST(!put(FILES "merge_rate", "1000"));
	put(FILES "merge", "keep");
	return merging();
}

static void act(uint64_t *dice)
{
	bool pass = roll(dice) % 4 && start_slow_pass();

	switch (roll(dice) % 8) {
	case 0:
		pass = merging();
		squeeze();
		in_pass.squeezes += pass;
		break;
	case 1:
		pass = merging();
		MUST(!put(FILES "merge", "0"));
		in_pass.stops += pass;
		break;
	case 2:
		pass = merging();
		MUST(!put(FILES "merge_mode", "off") && !put(FILES "merge_mode", OF(modes, dice)));
		in_pass.stops += pass;
		break;
	default:
		cpu_offline_online();
		in_pass.offlines += pass && merging();
	}
}

/* Exercises what needs a running pass. */
static void *during_passes(void *arg)
{
	uint64_t dice = 99 + (uintptr_t)arg;

	while (!over) {
		act(&dice);
		usleep(100000);
	}
	return NULL;
}

/* Opens and closes the device, so that resets and removals happen while it is open. */
static void *knock(void *arg)
{
	char byte[512];

	(void)arg;
	while (!over) {
		int device = open(DEVICE, O_RDONLY);

		if (device >= 0 && read(device, byte, sizeof(byte)) < 0 && errno != EIO)
			DIE("read: %s", strerror(errno));
		if (device >= 0)
			close(device);
		usleep(300);
	}
	return NULL;
}

static bool one_of(int err, const int *list, int count)
{
	while (count--)
		if (err == list[count])
			return true;
	return false;
}

/* Writes or reads a file of a device that may be set up, empty, or gone. */
static void poke_once(uint64_t *dice)
{
	static const char *const files[] = { "merge", "merge", "merge_mode", "merge_budget", "merge_rate", "compact" };
	static const char *const texts[] = { "1", "0", "keep", "inline", "off", "64K", "4000" };
	static const int allowed[] = { 0, EINVAL, EBUSY, EOPNOTSUPP, ENOENT, ENODEV };
	char path[128], text[4096];
	int file, err;

	if (roll(dice) % 2) {
		snprintf(path, sizeof(path), FILES "%s", OF(files, dice));
		err = put(path, OF(texts, dice));
	} else {
		snprintf(path, sizeof(path), FILES "%s", OF(values, dice));
		file = open(path, O_RDONLY);
		err = file < 0 || read(file, text, sizeof(text)) < 0 ? errno : 0;
		if (file >= 0)
			close(file);
	}
	if (!one_of(err, allowed, sizeof(allowed) / sizeof(*allowed)))
		DIE("%s: %s", path, strerror(err));
	pokes++;
}

/* Keeps one file open and polls it, even while the device is reset or removed. */
static void *poke(void *arg)
{
	uint64_t dice = 55 + (uintptr_t)arg;
	struct pollfd kept = { .fd = -1, .events = POLLPRI };
	char text[64];

	while (!over) {
		if (kept.fd < 0)
			kept.fd = open(FILES "merge", O_RDONLY);
		poke_once(&dice);
		poll(&kept, 1, 1);
		if (kept.fd >= 0 && pread(kept.fd, text, sizeof(text), 0) < 0) {
			if (errno != ENODEV)
				DIE("merge: %s", strerror(errno));
			close(kept.fd);
			kept.fd = -1;
		}
	}
	if (kept.fd >= 0)
		close(kept.fd);
	return NULL;
}

/*
 * Repeats the write while allocations fail or the device is busy; adding a disk may then fail with
 * EINVAL, too.
 */
static void insist(const char *path, const char *text)
{
	bool adds = !strcmp(path, CONTROL "hot_add");
	int tries, err = 0;

	for (tries = 0; tries < 100000; tries++) {
		err = put(path, text);
		if (!err)
			return;
		if (err != EBUSY && err != ENOMEM && !(adds && err == EINVAL))
			break;
	}
	DIE("%s: %s", path, strerror(err));
}

static void expect(const char *name, const char *wanted)
{
	char text[4096], squeezed[4096];
	size_t from, to = 0;

	get(name, text, sizeof(text));
	for (from = 0; text[from]; from++)
		if (text[from] != '\n' && (text[from] != ' ' || (to && squeezed[to - 1] != ' ')))
			squeezed[to++] = text[from];
	squeezed[to] = 0;
	if (strcmp(squeezed, wanted))
		DIE("after a reset %s is '%s'", name, squeezed);
}

/*
 * Resets or removes the device; removal must also work without a reset before it. A pass may be
 * running.
 */
static void end_device(bool remove)
{
	bool pass = merging();

	if (remove) {
		insist(CONTROL "hot_remove", "0");
		insist(CONTROL "hot_add", "0");
		removals++;
		in_pass.removals += pass;
	} else {
		insist(FILES "reset", "1");
		resets++;
		in_pass.resets += pass;
	}
}

static void reset(bool remove, uint64_t *dice)
{
	pthread_t knocker, poker;

	over = false;
	MUST(!pthread_create(&knocker, NULL, knock, NULL));
	MUST(!pthread_create(&poker, NULL, poke, (void *)(uintptr_t)roll(dice)));
	usleep(roll(dice) % 20000);
	end_device(remove);
	usleep(2000);
	over = true;
	pthread_join(knocker, NULL);
	pthread_join(poker, NULL);
	expect("mm_stat", "0 0 0 0 0 0 0 0 0");
	expect("merged_pages", "0");
	expect("merged_bytes", "0");
	expect("index_bytes", "0");
	expect("merge_hits", "0");
	expect("merge_misses", "0");
}

static void set_up(uint64_t *dice)
{
	static const char *const domains[] = { "device", "cgroup" };
	static const char *const algorithms[] = { "lz4", "lz4", "lzo", "lzo-rle", "zstd" };
	char size[32];

	snprintf(size, sizeof(size), "%d", PAGES * PAGE);
	insist(FILES "comp_algorithm", OF(algorithms, dice));
	insist(FILES "merge_domain", OF(domains, dice));
	insist(FILES "merge_budget", "1M");
	insist(FILES "merge_rate", "0");
	insist(FILES "merge_mode", OF(modes, dice));
	insist(FILES "disksize", size);
}

static void wait_for_pass(void)
{
	char text[64];
	int tries;

	for (tries = 0; tries < 100000; tries++) {
		get("merge", text, sizeof(text));
		if (!atoi(text))
			return;
		usleep(1000);
	}
	DIE("a pass does not end");
}

static void check_all(struct worker *workers)
{
	int me, chunk;

	for (me = 0; me < WORKERS; me++)
		for (chunk = 0; chunk < CHUNKS_EACH; chunk++)
			look(&workers[me], chunk, 0, CHUNK, false);
}

static void epoch(struct worker *workers, unsigned long operations, uint64_t *dice)
{
	pthread_t disturber, other;
	int me, device;

	set_up(dice);
	device = open(DEVICE, O_RDWR | O_DIRECT);
	MUST(device >= 0);
	over = false;
	MUST(!pthread_create(&disturber, NULL, disturb, (void *)(uintptr_t)roll(dice)));
	MUST(!pthread_create(&other, NULL, during_passes, (void *)(uintptr_t)roll(dice)));
	for (me = 0; me < WORKERS; me++) {
		workers[me].device = device;
		workers[me].wanted = workers[me].operations + operations / WORKERS;
		memset(workers[me].ids, 0, sizeof(workers[me].ids));
		MUST(!pthread_create(&workers[me].thread, NULL, work, &workers[me]));
	}
	for (me = 0; me < WORKERS; me++)
		pthread_join(workers[me].thread, NULL);
	over = true;
	pthread_join(disturber, NULL);
	pthread_join(other, NULL);
	check_all(workers);
	MUST(!put(FILES "merge_rate", "0"));
	wait_for_pass();
	/* In half of the cases, the reset or removal below ends a running pass. */
	put(FILES "merge_mode", "request");
	if (roll(dice) % 2) {
		put(FILES "merge", "1");
		wait_for_pass();
		check_all(workers);
	} else {
		start_slow_pass();
	}
	close(device);
}

/*
 * Allocates memory for a worker's pages, charged to the new memory cgroup @group; NULL: to our own
 * cgroup.
 */
static uint8_t *charged(const char *group, size_t size)
{
	uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char path[128];
	pid_t child;
	int status;

	MUST(bytes != MAP_FAILED);
	child = fork();
	MUST(child >= 0);
	if (!child) {
		snprintf(path, sizeof(path), GROUPS "%s", group ? group : "");
		MUST(!mkdir(path, 0700) || errno == EEXIST);
		strcat(path, "/cgroup.procs");
		MUST(!group || !put(path, "0"));
		memset(bytes, 1, size);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child && !status);
	return bytes;
}

/*
 * Runs until @wanted pages have been written, read and compared, or cleared, or for @minutes;
 * @each is the number of operations between two resets.
 */
static int soak_disk(unsigned long wanted, unsigned long each, long minutes)
{
	time_t end = time(NULL) + minutes * 60;
	static const char *const groups[WORKERS] = { NULL, "soak-1", "soak-2", "soak-2" };
	static struct worker workers[WORKERS];
	unsigned long done = 0, failed = 0, pages = 0;
	uint64_t dice = 20261121;
	unsigned int at, epochs = 0;

	MUST(!put(GROUPS "cgroup.subtree_control", "+memory"));
	start_pressure();
	for (at = 0; at < WORKERS; at++) {
		workers[at].me = at;
		workers[at].dice = 1000 + at;
		workers[at].buffer = charged(groups[at], (CHUNK + 1) * PAGE);
		workers[at].other = aligned_alloc(PAGE, PAGE);
	}
	while (pages < wanted && time(NULL) < end) {
		epoch(workers, each, &dice);
		reset(++epochs % 3 == 0, &dice);
		for (done = failed = pages = 0, at = 0; at < WORKERS; at++) {
			done += workers[at].operations;
			failed += workers[at].failed;
			pages += workers[at].pages;
		}
		printf("%lu operations, pages done %lu times, %lu failed as told, %lu turns of the files, %lu refusals, %lu resets, %lu removals\n",
		       done, pages, failed, turns, refusals, resets, removals);
		printf("a CPU offline %lu times (%lu times not back at once), entries removed by drop_caches %lu times, %lu uses of files beside resets and removals; during passes: %lu stops, %lu times a CPU offline, %lu times no memory, %lu resets, %lu removals\n",
		       offlines, not_online, shrunk, pokes, in_pass.stops, in_pass.offlines, in_pass.squeezes, in_pass.resets,
		       in_pass.removals);
		fflush(stdout);
	}
	if (pages < wanted)
		printf("the time is over, %lu of %lu pages done\n", pages, wanted);
	if (pages >= 1000000 && !(refusals && resets && removals && offlines && shrunk && in_pass.stops &&
				   in_pass.offlines && in_pass.squeezes && in_pass.resets && in_pass.removals))
		DIE("something never happened");
	return 0;
}

#define FILE_MAX (1 << 20)

/* A file, and the copy of its contents in memory. */
struct copy {
	pthread_t thread;
	char path[256];
	uint64_t dice;
	unsigned long wanted;
	int file;
	uint32_t size;
	uint8_t *bytes, *found;
};

static void copy_grow(struct copy *copy, uint32_t size)
{
	if (size < copy->size)
		memset(copy->bytes + size, 0, copy->size - size);
	copy->size = size;
}

static void copy_write(struct copy *copy, uint32_t at, uint32_t len, bool mapped)
{
	const uint8_t *from = contents[roll(&copy->dice) % IDS];
	uint8_t *map;

	len = len > PAGE ? PAGE : len;
	memcpy(copy->bytes + at, from, len);
	if (at + len > copy->size)
		copy->size = at + len;
	if (!mapped) {
		MUST(pwrite(copy->file, from, len, at) == (ssize_t)len);
		return;
	}
	MUST(!ftruncate(copy->file, copy->size));
	map = mmap(NULL, copy->size, PROT_READ | PROT_WRITE, MAP_SHARED, copy->file, 0);
	MUST(map != MAP_FAILED);
	memcpy(map + at, from, len);
	munmap(map, copy->size);
}

static void copy_compare(struct copy *copy)
{
	MUST(pread(copy->file, copy->found, FILE_MAX, 0) == (ssize_t)copy->size);
	if (memcmp(copy->found, copy->bytes, copy->size))
		DIE("%s: other bytes", copy->path);
}

static void copy_step(struct copy *copy)
{
	uint32_t at = roll(&copy->dice) % (FILE_MAX - PAGE), len = 1 + roll(&copy->dice) % PAGE;

	switch (roll(&copy->dice) % 32) {
	case 0 ... 17:
		return copy_write(copy, at, len, false);
	case 18 ... 21:
		return copy_write(copy, at, len, true);
	case 22 ... 24:
		copy_grow(copy, at);
		MUST(!ftruncate(copy->file, at));
		return;
	case 25 ... 27:
		len *= 8;
		if (at + len > copy->size)
			return;
		memset(copy->bytes + at, 0, len);
		MUST(!fallocate(copy->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len));
		return;
	case 28:
		MUST(!fsync(copy->file));
		MUST(!posix_fadvise(copy->file, 0, 0, POSIX_FADV_DONTNEED));
		return;
	default:
		copy_compare(copy);
	}
}

static void *copy_work(void *arg)
{
	struct copy *copy = arg;

	while (copy->wanted--)
		copy_step(copy);
	copy_compare(copy);
	return NULL;
}

static int soak_files(const char *folder, unsigned long operations)
{
	static struct copy copies[WORKERS];
	int at;

	for (at = 0; at < WORKERS; at++) {
		struct copy *copy = &copies[at];

		snprintf(copy->path, sizeof(copy->path), "%s/%d", folder, at);
		copy->dice = 500 + at;
		copy->wanted = operations / WORKERS;
		copy->bytes = calloc(1, FILE_MAX);
		copy->found = calloc(1, FILE_MAX);
		copy->file = open(copy->path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		MUST(copy->file >= 0);
		MUST(!pthread_create(&copy->thread, NULL, copy_work, copy));
	}
	for (at = 0; at < WORKERS; at++) {
		pthread_join(copies[at].thread, NULL);
		MUST(!fsync(copies[at].file));
		MUST(!posix_fadvise(copies[at].file, 0, 0, POSIX_FADV_DONTNEED));
		copy_compare(&copies[at]);
	}
	printf("%lu operations on four files: as in memory\n", operations);
	return 0;
}

int main(int argc, char **argv)
{
	make_contents();
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "disk"))
		return soak_disk(atol(argv[2]), atol(argv[3]), argc == 5 ? atol(argv[4]) : 1000000);
	if (argc == 4 && !strcmp(argv[1], "files"))
		return soak_files(argv[2], atol(argv[3]));
	fprintf(stderr, "usage: soak disk PAGES EPOCH [MINUTES] | soak files FOLDER OPERATIONS\n");
	return 2;
}
