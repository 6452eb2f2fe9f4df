// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What merging of identical pages by KSM saves and costs.
//!
//! The kernel keeps a record of 64 bytes for each scanned page, and saves a page for each merged page.
//! Source: the kernel's `Documentation/admin-guide/mm/ksm.rst`, whose formula is used on kernels
//! without `general_profit` (before 6.4).

use pagewise_model::{Bytes, Ksm, Pages, Reading};

/// Size of the kernel's record of one scanned page (`struct ksm_rmap_item` of a 64-bit kernel).
const RECORD: Bytes = Bytes::new(64);

/// Bytes that merging saves minus those of the kernel's records; negative if KSM uses more memory than
/// it saves, `None` if that is not known.
pub fn profit(ksm: &Ksm, page: Bytes) -> Option<i64> {
    if let Some(profit) = ksm.general_profit_bytes.get() {
        return Some(profit);
    }
    let saved = ksm.pages_sharing.get()?.to_bytes(page);
    let records = tracked_pages(ksm)?.to_bytes(RECORD);
    let signed = |bytes: Bytes| i64::try_from(bytes.get()).ok();
    signed(saved)?.checked_sub(signed(records)?)
}

/// Number of pages for which KSM keeps a record: shared, unshared, and volatile pages (those that
/// change too often to be merged).
pub fn tracked_pages(ksm: &Ksm) -> Option<Pages> {
    let others = [&ksm.pages_shared, &ksm.pages_unshared, &ksm.pages_volatile];
    let others: Pages = others.into_iter().filter_map(Reading::get).sum();
    Some(others.saturating_add(ksm.pages_sharing.get()?))
}
