// SPDX-License-Identifier: GPL-2.0-only
/*
 * What QEMU 7.2 makes of the flags when -1 is added to 64 bits on 32-bit x86, as the kernel's atomic64_add() does it: a
 * processor prints 00000257, qemu-i386 of that version ffffffff. An interrupt at that moment is the double fault of
 * README.md.
 *
 *	gcc -m32 -static -fno-pie -o flags flags.c && ./flags && qemu-i386 ./flags
 *
 * The jump ends a block of QEMU's, which keeps how the flags were made in a variable of the block only.
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
