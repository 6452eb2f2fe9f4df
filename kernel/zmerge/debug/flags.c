// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shows a bug of QEMU 7.2: the flags after adding -1 to 64 bits on 32-bit x86, as the kernel's
 * atomic64_add() does it. A CPU prints 00000257, qemu-i386 of that version ffffffff. An interrupt
 * at that moment causes the double fault that README.md describes.
 *
 *	gcc -m32 -static -fno-pie -o flags flags.c && ./flags && qemu-i386 ./flags
 *
 * The jump ends a translation block of QEMU, which keeps the source of the flags in a variable
 * local to the block.
 */
#include <stdio.h>

static unsigned long long number __attribute__((aligned(8))) = 1;

int main(void)
{
	unsigned int low = (unsigned int)number, high = (unsigned int)(number >> 32), flags;

	asm volatile("lock cmpxchg8b (%%esi)\n\t"
		     "jmp 1f\n"
		     "1:\tmovl %%eax, %%ebx\n\t"
		     "movl %%edx, %%ecx\n\t"
		     "addl %%edi, %%ebx\n\t"
		     "adcl %%edi, %%ecx\n\t"
		     "lock cmpxchg8b (%%esi)\n\t"
		     "pushfl\n\t"
		     "popl %0"
		     : "=m"(flags), "+a"(low), "+d"(high)
		     : "S"(&number), "D"(-1), "b"(1), "c"(0)
		     : "memory");
	printf("%08x\n", flags);
	return 0;
}
