// SPDX-License-Identifier: GPL-2.0-only
#include "model.h"

#define SLOTS 48

struct model {
	struct zm_core zm;
	struct fake fake;
	u32 page[SLOTS];	/* ID of its content; 0: empty */
	u32 domain[SLOTS];
};

/*
 * The ID selects a kind of page: one repeated word; short objects; long ones that differ in one
 * byte; incompressible pages.
 */
void model_page(u32 id, void *page)
{
	u8 *bytes = page;
	u32 at, len = 16 + id % 4 * (PAGE_SIZE / 6);

	memset(page, 0, PAGE_SIZE);
	if (!id)
		return;
	if (id % 8 == 1) {
		for (at = 0; at < PAGE_SIZE / 8; at++)
			memcpy(bytes + 8 * at, &(u64){ id }, 8);
		return;
	}
	if (id % 8 == 6)
		len = PAGE_SIZE;
	memset(bytes, 0xa5, len);
	bytes[id % 16] = id;
	bytes[len - 1] = 1 + id / 32;
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void model_read(struct model *model, u32 slot)
{
	u8 found[PAGE_SIZE], want[PAGE_SIZE];

	CHECK(!zm_read(&model->zm, slot, found));
	model_page(model->page[slot], want);
	CHECK(!memcmp(found, want, PAGE_SIZE));
}

static void model_write(struct model *model, u32 slot, u32 id, u32 domain)
{
	u8 page[PAGE_SIZE];
	int err;

	model_page(id, page);
	err = zm_write(&model->zm, slot, page, domain);
	CHECK(!err || err == -ENOMEM);
	if (err)
		return;
	model->page[slot] = id;
	model->domain[slot] = domain;
}

static void model_clear(struct model *model, u32 slot, bool at_once)
{
	if (at_once)
		zm_clear_at_once(&model->zm, slot);
	else
		zm_clear(&model->zm, slot);
	model->page[slot] = 0;
}

/* Whether the two slots may share an object. */
static bool model_may_share(struct model *model, u32 a, u32 b)
{
	return model->page[a] == model->page[b] &&
	       (!model->zm.domains || (model->domain[a] && model->domain[a] == model->domain[b]));
}

/* Checks that only slots that may share an object do. */
static void model_check(struct model *model)
{
	u32 a, b;

	fake_check(&model->zm, &model->fake);
	for (a = 0; a < SLOTS; a++)
		for (b = 0; b < a && zm_has_object(fake_slot(&model->zm, a)); b++)
			CHECK(zm_kind(fake_slot(&model->zm, b)) < ZM_PLAIN || model_may_share(model, a, b) ||
			      fake_slot(&model->zm, a).value != fake_slot(&model->zm, b).value);
}

/*
 * Runs a pass. Without failing allocations (@refuse), no two slots that may share an object may be
 * left with equal objects of their own.
 */
static void model_merge(struct model *model, bool refuse)
{
	u32 a, b;

	CHECK(zm_merge(&model->zm, nothing, NULL) == 0 || refuse);
	if (refuse)
		return;
	for (a = 0; a < SLOTS; a++)
		for (b = 0; b < a; b++)
			if (model_may_share(model, a, b) && zm_has_object(fake_slot(&model->zm, a)))
				CHECK(fake_slot(&model->zm, a).value == fake_slot(&model->zm, b).value);
}

static void model_settle(struct model *model, u8 how)
{
	fake_refuse(how & 3 ? (how & 3) + 1 : 0);
	model->fake.shy = how & 4;
	model->fake.memory = how & 8 ? 5 * PAGE_SIZE : 0;
	model->fake.limit = how & 16 ? 4 * PAGE_SIZE : 0;
}

static void model_step(struct model *model, u8 what, u8 where, u8 which)
{
	u32 slot = where % SLOTS;

	switch (what % 16) {
	case 0 ... 6:
		return model_write(model, slot, which, where / SLOTS);
	case 7 ... 9:
		return model_read(model, slot);
	case 10:
		return model_clear(model, slot, which & 1);
	case 11:
		/* In the fuzzer, whose tables are small: in one round, or in several. */
		atomic64_set(&model->zm.pass_budget, which & 1 ? 0 : ZM_BUDGET);
		return model_merge(model, false);
	case 12:
		fake_refuse(2 + which % 4);
		model_merge(model, true);
		return fake_refuse(0);
	case 13:
		if (which & 64)
			return (void)zm_forget_some(&model->zm, which & 63);
		return zm_set_mode(&model->zm, which % 4);
	case 14:
		return model_settle(model, which);
	default:
		return model_check(model);
	}
}

void model_run(const u8 *bytes, size_t len)
{
	struct model *model = calloc(1, sizeof(*model));
	u32 slot;

	fake_refuse(0);
	CHECK(!zm_init(&model->zm, SLOTS, &model->fake, FAKE_HUGE_LEN, 42));
	if (len && bytes[0] & 128)
		CHECK(!zm_use_domains(&model->zm));
	for (; len >= 3; bytes += 3, len -= 3) {
		if (bytes[0] % 16 == 11)
			model_settle(model, 0);
		model_step(model, bytes[0], bytes[1], bytes[2]);
	}
	fake_refuse(0);
	for (slot = 0; slot < SLOTS; slot++)
		model_read(model, slot);
	model_check(model);
	zm_destroy(&model->zm);
	CHECK(!atomic64_read(&model->fake.objects) && !atomic64_read(&model->fake.bytes));
	free(model);
}
