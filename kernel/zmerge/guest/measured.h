/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the programs that measure in a guest: ticks, random numbers, and exits with a reason.
 */
#ifndef MEASURED_H
#define MEASURED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAGE 4096ul

#define MUST(x) do { if (!(x)) { fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); perror(#x); exit(1); } } while (0)

/*
 * Ticks of the time stamp counter, or nanoseconds. In a guest that counts instructions, both are
 * numbers of instructions; on arm64 the counter advances in steps of 16 of them.
 */
static inline uint64_t ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t now, hertz;

	asm volatile("isb; mrs %0, cntvct_el0" : "=r"(now));
	asm volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
	return now * (1000000000 / hertz);
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
#endif
}

static inline uint64_t roll(uint64_t *dice)
{
	*dice ^= *dice << 13;
	*dice ^= *dice >> 7;
	*dice ^= *dice << 17;
	return *dice;
}

#endif
