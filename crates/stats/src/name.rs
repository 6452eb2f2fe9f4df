// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of the metrics that every run has, as they are typed, printed and recorded.

#![expect(missing_docs, reason = "the row of each in KNOWN says what it counts")]

pub const MAJOR_FAULTS: &str = "major-faults";
pub const REFAULTS: &str = "refaults";
pub const REFAULTS_ANON: &str = "refaults-anon";
pub const REFAULTS_FILE: &str = "refaults-file";
pub const SCANNED: &str = "scanned";
pub const DIRECT_SCANS: &str = "direct-scans";
pub const STOLEN: &str = "stolen";
pub const SCAN_EFFICIENCY: &str = "scan-efficiency";
pub const KEPT_OUT: &str = "kept-out";
pub const SWAPPED_IN: &str = "swapped-in";
pub const SWAPPED_OUT: &str = "swapped-out";
pub const ZSWAP_IN: &str = "zswap-in";
pub const ZSWAP_OUT: &str = "zswap-out";
pub const ZERO_IN: &str = "zero-pages-in";
pub const ZERO_OUT: &str = "zero-pages-out";
pub const SWAP_INS: &str = "swap-ins";
pub const DISK_SWAP_READS: &str = "disk-swap-reads";
pub const DISK_SWAP_WRITES: &str = "disk-swap-writes";
pub const WRITTEN_BACK: &str = "written-back";
pub const ZSWAP_REFUSED: &str = "zswap-refused";
pub const REFUSED_SHARE: &str = "refused-share";
pub const SWAP_USED: &str = "swap-used";
pub const POOL: &str = "pool";
pub const PEAK_MEMORY: &str = "peak-memory";
pub const NEIGHBOUR_FAULTS: &str = "neighbour-faults";
pub const NEIGHBOUR_PEAK: &str = "neighbour-peak";
pub const NEIGHBOUR_POOL: &str = "neighbour-pool";
pub const NEIGHBOUR_KILLS: &str = "neighbour-kills";
pub const CPU: &str = "cpu";
pub const KSWAPD_CPU: &str = "kswapd-cpu";
pub const TIME: &str = "time";
pub const MEMORY_STALL: &str = "memory-stall";
