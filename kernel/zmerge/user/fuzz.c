// SPDX-License-Identifier: GPL-2.0-only
#include "model.h"

int LLVMFuzzerTestOneInput(const u8 *bytes, size_t len)
{
	model_run(bytes, len < 4096 ? len : 4096);
	return 0;
}
