/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns bytes into operations on a small device, and compares the device with an array of the
 * expected pages.
 */
#ifndef ZM_MODEL_H
#define ZM_MODEL_H

#include "fake.h"

void model_run(const u8 *bytes, size_t len);

/*
 * Fills @page with content @id. Equal IDs give equal pages; some different IDs give nearly equal
 * ones.
 */
void model_page(u32 id, void *page);

#endif
