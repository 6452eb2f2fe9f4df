// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives from a snapshot which kernel's zram the estimates imitate, and which algorithms it
//! offers.

use pagewise_model::{FeatureState, Snapshot, Zram};
use pagewise_pages::codec::{Algorithm, DEFAULTS};
use pagewise_pages::kernel::{Kernel, KernelTraits};

/// The kernel of this machine.
pub(in crate::verbs) fn own_kernel(snapshot: &Snapshot) -> Kernel {
    let has_device = !snapshot.zram.is_empty();
    let parameters = is_present(snapshot, "zram.algorithm_params");
    Kernel::from_traits(&KernelTraits {
        chain_size: snapshot.zsmalloc_chain_size.get().and_then(|pages| pages.try_into().ok()),
        algorithm_params: has_device.then_some(parameters),
        slot_bytes: slot_bytes(snapshot),
    })
}

/// Bytes of a zram slot, computed from an initialised device.
fn slot_bytes(snapshot: &Snapshot) -> Option<u64> {
    let page = snapshot.host.page_size.get()?.get();
    let of_device = |zram: &Zram| {
        let slots = zram.disksize.get()?.get() / page;
        zram.slot_table.get()?.get().checked_div(slots)
    };
    snapshot.zram.iter().find_map(of_device)
}

fn is_present(snapshot: &Snapshot, feature: &str) -> bool {
    let mut known = snapshot.capabilities.iter();
    known.any(|known| known.feature == feature && known.state == FeatureState::Present)
}

/// The algorithms of the first compressed RAM device, the active one first; without a device, all
/// that any supported kernel offers.
pub(super) fn offered_algorithms(snapshot: &Snapshot) -> Vec<Algorithm> {
    let Some(device) = snapshot.compressed_devices().find_map(|zram| zram.algorithm.value()) else {
        return DEFAULTS.to_vec();
    };
    let known = |name: &str| DEFAULTS.into_iter().find(|algorithm| algorithm.name() == name);
    let mut all: Vec<Algorithm> =
        device.available.iter().filter_map(|name| known(name.as_str())).collect();
    all.sort_by_key(|algorithm| algorithm.name() != device.active.as_str());
    if all.is_empty() { DEFAULTS.to_vec() } else { all }
}

/// The algorithms fast enough for the short sample of a report; the active algorithm is always
/// among them.
pub(super) fn fast_algorithms(snapshot: &Snapshot) -> Vec<Algorithm> {
    let mut all = offered_algorithms(snapshot);
    let first = all.first().copied();
    all.retain(|algorithm| {
        let is_fast = matches!(algorithm, Algorithm::Lz4 | Algorithm::LzoRle | Algorithm::Zstd(_));
        is_fast || first == Some(*algorithm)
    });
    all
}
