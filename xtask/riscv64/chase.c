/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * chase PAGES: waits for a line on its input, then loads from this many pages, 200,000 times in
 * random order, and stays alive. The emulated CPU has an unlimited TLB, so after each 1,000 loads a
 * page is unmapped, which flushes the TLB.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 200, LOADS = 1000 };

int main(int count, char **words)
{
	size_t pages = count > 1 ? strtoul(words[1], NULL, 10) : 0;
	size_t size = (pages + 1) * PAGE;
	volatile char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *spare = memory + pages * PAGE;
	uint64_t state = 1;

	if (pages == 0 || memory == MAP_FAILED || madvise((void *)memory, size, MADV_NOHUGEPAGE))
		return 1;
	memset((void *)memory, 1, size);
	if (getchar() == EOF)
		return 1;
	for (int round = 0; round < ROUNDS; round++) {
		for (int load = 0; load < LOADS; load++) {
			(void)memory[(state >> 33) % pages * PAGE];
			state = state * 6364136223846793005u + 1442695040888963407u;
		}
		*spare = 1;
		madvise((void *)spare, PAGE, MADV_DONTNEED);
	}
	pause();
	return 0;
}
