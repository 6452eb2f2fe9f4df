/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Defines for user space the names that the core takes from the kernel. Allocations fail if a test
 * says so, and a lock knows which thread holds it.
 */
#ifndef ZM_PORT_USER_H
#define ZM_PORT_USER_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
typedef unsigned int gfp_t;

#ifndef PAGE_SIZE
#define PAGE_SIZE 4096ul
#endif
#define PAGE_SHIFT __builtin_ctzl(PAGE_SIZE)
#define U8_MAX UINT8_MAX
#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX

#define GFP_KERNEL 1u
#define GFP_NOIO 2u
#define GFP_NOWAIT 4u
#define __GFP_NOWARN 0u
#define __GFP_NOMEMALLOC 0u
#define __GFP_NORETRY 0u
#define __GFP_ZERO 8u

#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)
#define BUILD_BUG_ON(x) _Static_assert(!(x), #x)
#define max_t(type, a, b) ((type)(a) > (type)(b) ? (type)(a) : (type)(b))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define clamp_t(type, x, low, high) min_t(type, max_t(type, x, low), high)
/*
 * Defined in another object (fake.c), so that a 32-bit object of the core shows whether it contains
 * a 64-bit division itself.
 */
u64 div64_u64_rem(u64 a, u64 b, u64 *rest);
#define div64_u64(a, b) div64_u64_rem(a, b, &(u64){ 0 })
#define div_u64(a, b) div64_u64(a, b)
#define noinline __attribute__((noinline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define __might_sleep(file, line) WARN_ON_ONCE(zm_test_locks)
#define cond_resched() do { } while (0)

#define ZM_DIE(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort())
#define WARN_ON_ONCE(x) ({ \
	bool bad_ = (x); \
	if (bad_) \
		ZM_DIE("%s:%d: warning: %s", __FILE__, __LINE__, #x); \
	bad_; })

static inline u64 rounddown_pow_of_two(u64 n)
{
	return 1ull << (63 - __builtin_clzll(n));
}

/* Whether this allocation must fail, because the test lets every @n-th one fail. */
bool zm_test_refuses(void);

/* Allocations larger than this fail; 0: no limit. */
extern size_t zm_test_largest;

/* Allocates and frees the core's memory, which is counted (fake_memory()). */
void *zm_test_alloc(size_t size, bool zeros);
void zm_test_free(void *memory);

static inline void *kmalloc(size_t size, gfp_t gfp)
{
	(void)gfp;
	return zm_test_alloc(size, false);
}

static inline void *kvmalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, gfp);
}

static inline void *kvcalloc(size_t n, size_t size, gfp_t gfp)
{
	(void)gfp;
	return zm_test_alloc(n * size, true);
}

/* Like kvmalloc with zeros: all callers pass __GFP_ZERO. */
static inline void *__vmalloc(size_t size, gfp_t gfp)
{
	return kvcalloc(1, size, gfp);
}

#define kfree(p) zm_test_free(p)
#define kvfree(p) zm_test_free(p)
#define vfree(p) zm_test_free(p)

typedef struct {
	pthread_mutex_t mutex;
	pthread_t owner;
	bool held;
} spinlock_t;

/* Number of locks that this thread holds; while it holds one, nothing else may run on it. */
extern __thread unsigned int zm_test_locks;
/* The lock that it took last. */
extern __thread const spinlock_t *zm_test_last_lock;

static inline void spin_lock_init(spinlock_t *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->held = false;
}

static inline void spin_lock(spinlock_t *lock)
{
	pthread_mutex_lock(&lock->mutex);
	lock->owner = pthread_self();
	lock->held = true;
	zm_test_locks++;
	zm_test_last_lock = lock;
}

static inline void spin_unlock(spinlock_t *lock)
{
	zm_test_locks--;
	lock->held = false;
	pthread_mutex_unlock(&lock->mutex);
}

#define lockdep_assert_held(lock) \
	WARN_ON_ONCE(!(lock)->held || !pthread_equal((lock)->owner, pthread_self()))

/* Stands for a sleeping lock: a thread holds at most one of each kind. */
struct lockdep_map {
	const char *name;
};

struct lock_class_key {
	char nothing;
};

extern __thread const struct lockdep_map *zm_test_map;

#define lockdep_init_map(map, named, key, subclass) ((void)(key), (map)->name = (named))
#define mutex_acquire(map, subclass, trylock, ip) (WARN_ON_ONCE(zm_test_map), (void)(zm_test_map = (map)))
#define mutex_release(map, ip) (WARN_ON_ONCE(zm_test_map != (map)), (void)(zm_test_map = NULL))
#define _RET_IP_ 0

/* Busy waiting, so nobody needs to be woken. */
#define wait_var_event(var, condition) do { \
	while (!(condition)) \
		sched_yield(); } while (0)
#define wake_up_var(var) ((void)(var))

typedef struct { s64 v; } atomic64_t;
typedef struct { int v; } atomic_t;

/* A hook before each atomic operation, in which a test can act as another CPU. */
extern void (*zm_test_interrupt)(void);

static inline void zm_test_step(void)
{
	if (zm_test_interrupt && !zm_test_locks && !zm_test_map)
		zm_test_interrupt();
}

#define ZM_STEP(operation) (zm_test_step(), (operation))

#define atomic64_read(a) ZM_STEP(__atomic_load_n(&(a)->v, __ATOMIC_RELAXED))
#define atomic64_set(a, n) ZM_STEP(__atomic_store_n(&(a)->v, n, __ATOMIC_RELAXED))
#define atomic64_add(n, a) ZM_STEP((void)__atomic_fetch_add(&(a)->v, n, __ATOMIC_RELAXED))
#define atomic64_sub(n, a) ZM_STEP((void)__atomic_fetch_sub(&(a)->v, n, __ATOMIC_RELAXED))
#define atomic64_inc(a) atomic64_add(1, a)
#define atomic64_add_return(n, a) ZM_STEP(__atomic_add_fetch(&(a)->v, n, __ATOMIC_SEQ_CST))
#define atomic_read(a) ZM_STEP(__atomic_load_n(&(a)->v, __ATOMIC_RELAXED))
#define atomic_set(a, n) ZM_STEP(__atomic_store_n(&(a)->v, n, __ATOMIC_RELAXED))
#define atomic_inc(a) ZM_STEP((void)__atomic_fetch_add(&(a)->v, 1, __ATOMIC_RELAXED))
#define atomic_inc_return(a) ZM_STEP(__atomic_add_fetch(&(a)->v, 1, __ATOMIC_SEQ_CST))
#define atomic_xchg(a, n) ZM_STEP(__atomic_exchange_n(&(a)->v, n, __ATOMIC_SEQ_CST))

static inline s64 zm_test_cmpxchg(s64 *at, s64 old, s64 new)
{
	zm_test_step();
	__atomic_compare_exchange_n(at, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return old;
}

#define atomic64_fetch_or(n, a) ZM_STEP(__atomic_fetch_or(&(a)->v, (s64)(n), __ATOMIC_SEQ_CST))
#define atomic64_cmpxchg(a, old, new) zm_test_cmpxchg(&(a)->v, old, new)
#define atomic64_try_cmpxchg(a, old, new) ZM_STEP( \
	__atomic_compare_exchange_n(&(a)->v, old, (s64)(new), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list->prev = list;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	entry->next = head->next;
	entry->prev = head;
	head->next->prev = entry;
	head->next = entry;
}

static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

#define list_first_entry(head, type, member) \
	((type *)((char *)(head)->next - offsetof(type, member)))

#endif
