// SPDX-License-Identifier: GPL-2.0-only
/*
 * The domain of a page: pages are merged only within one. It is the memory cgroup to which the page
 * is charged. A page that programs of different cgroups can write is charged to the one that
 * touched it first, so its contents may come from any other: pages of files, of shared memory and
 * those that KSM shares have no domain, and only private anonymous memory has one.
 */
#include <linux/cgroup.h>
#include <linux/memcontrol.h>

#include "zmerge.h"

#if ZM_HAS_MEMCG
static struct mem_cgroup *zm_memcg_of(struct page *page)
{
#if ZM_HAS_FOLIO_MEMCG_CHECK
	return folio_memcg_check(page_folio(page));
#else
	return page_memcg_check(compound_head(page));
#endif
}

/* In the swap cache, a page of shared memory is not anonymous either. */
static bool zm_is_private(struct page *page)
{
	struct folio *folio = page_folio(page);

	return folio_test_anon(folio) && !folio_test_ksm(folio);
}

/* Whether this kernel can tell the memory cgroup of a page. */
bool zm_domain_known(void)
{
	return !mem_cgroup_disabled();
}

/* The lower 32 bits of the cgroup's ID; IDs are not reused until 2^32 cgroups were created. */
u32 zm_memcg_domain(struct page *page)
{
	struct mem_cgroup *memcg;
	u32 domain = ZM_NO_DOMAIN;

	if (!zm_is_private(page))
		return domain;
	rcu_read_lock();
	memcg = zm_memcg_of(page);
	if (memcg)
		domain = cgroup_id(memcg->css.cgroup);
	rcu_read_unlock();
	return domain;
}
#else
bool zm_domain_known(void)
{
	return false;
}

u32 zm_memcg_domain(struct page *page)
{
	return ZM_NO_DOMAIN;
}
#endif
