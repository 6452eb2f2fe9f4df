/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bytes -> operations on a small device, held against an array of what each page should be.
 */
#ifndef ZM_MODEL_H
#define ZM_MODEL_H

#include "fake.h"

void model_run(const u8 *bytes, size_t len);

/* Content number @id; equal numbers are equal pages, and some different ones nearly so. */
void model_page(u32 id, void *page);

#endif
