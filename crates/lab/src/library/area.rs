// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts a swap area in an experiment file, such as `{ zram = "512M", algorithm = "lz4" }`, to a
//! swap area of an arm.

use pagewise_model::lend::{ZramWriteback, ZswapSpec};
use pagewise_model::{Percent, TrialSwap};
use pagewise_workload::Size;
use serde::Deserialize;

use super::quantity::Time;
use crate::experiment::{check_priority, check_size, check_word, whole_percent};

/// Device of the first disk of a guest.
const DISK: &str = "/dev/vda";

/// A swap area as written in a file: a `zram`, a `file` or a `disk`; or a `zswap`, which is in
/// front of the other areas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Area {
    zram: Option<Size>,
    file: Option<Size>,
    disk: bool,
    /// Name of zswap's compressor.
    zswap: Option<String>,
    /// zswap's pool limit in percent of RAM.
    percent: Option<u8>,
    /// After zswap's pool was full, it accepts pages again below this percentage of its limit.
    accept: Option<u8>,
    /// Whether zswap's shrinker is enabled.
    shrinker: bool,
    algorithm: Option<String>,
    limit: Option<Size>,
    /// How often zram writes idle pages back to the guest's disk; `None`: never.
    writeback: Option<Writeback>,
    priority: Option<i16>,
}

/// How often zram writes idle pages back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Writeback {
    every: Time,
}

impl Writeback {
    fn to_writeback(self) -> Result<ZramWriteback, String> {
        let every = self.every.0;
        if every.subsec_nanos() > 0 {
            return Err(format!("writeback: expected whole seconds, found {every:?}"));
        }
        Ok(ZramWriteback { device: DISK.to_owned(), every_seconds: every.as_secs() })
    }
}

const ZSWAP: &str = "percent, accept and shrinker are of zswap, which has no other keys, as \
    { zswap = \"lz4\", percent = 20, shrinker = true }";

impl Area {
    /// Checks the area and converts it to a swap area of an arm.
    pub(super) fn to_swap(&self) -> Result<TrialSwap, String> {
        let of_zram = self.algorithm.is_some() || self.limit.is_some() || self.writeback.is_some();
        let of_zswap = self.percent.is_some() || self.accept.is_some() || self.shrinker;
        if let Some(algorithm) = &self.zswap {
            let is_area = self.zram.is_some() || self.file.is_some() || self.disk;
            if is_area || of_zram || self.priority.is_some() {
                return Err(ZSWAP.to_owned());
            }
            let percent = |number: u8| whole_percent(Percent::new(number.into()));
            return Ok(TrialSwap::Zswap(ZswapSpec {
                algorithm: check_word(algorithm)?,
                max_pool_percent: self.percent.map(percent).transpose()?,
                accept_threshold_percent: self.accept.map(percent).transpose()?,
                shrinker: self.shrinker,
            }));
        }
        if of_zswap {
            return Err(ZSWAP.to_owned());
        }
        let priority = self.priority.map(check_priority).transpose()?;
        let area = match (self.zram, self.file, self.disk) {
            (Some(size), None, false) => {
                return Ok(TrialSwap::Zram {
                    size_bytes: check_size(size.0)?,
                    algorithm: self.algorithm.as_deref().map(check_word).transpose()?,
                    mem_limit_bytes: self.limit.map(|limit| check_size(limit.0)).transpose()?,
                    writeback: self.writeback.map(Writeback::to_writeback).transpose()?,
                    priority,
                });
            }
            (None, Some(size), false) => {
                TrialSwap::File { size_bytes: check_size(size.0)?, priority }
            }
            (None, None, true) => TrialSwap::Device { path: DISK.to_owned(), priority },
            _ => {
                return Err(
                    "expected one of zram, file, disk and zswap in each area of swap".to_owned()
                );
            }
        };
        if of_zram {
            Err("algorithm, limit and writeback are of zram alone".to_owned())
        } else {
            Ok(area)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(text: &str) -> Result<TrialSwap, String> {
        toml::from_str::<Area>(text).map_err(|error| error.to_string())?.to_swap()
    }

    #[test]
    fn each_kind_has_its_keys() {
        let zram = area("zram = '512M'\nalgorithm = 'lz4'\nlimit = '100M'\npriority = 10").unwrap();
        let expected = TrialSwap::Zram {
            size_bytes: 512 << 20,
            algorithm: Some("lz4".to_owned()),
            mem_limit_bytes: Some(100 << 20),
            writeback: None,
            priority: Some(10),
        };
        assert_eq!(zram, expected);
        let behind = area("zram = '512M'\nwriteback = { every = '5s' }").unwrap();
        let wanted = ZramWriteback { device: DISK.to_owned(), every_seconds: 5 };
        assert_eq!((behind.writeback(), behind.disk()), (Some(&wanted), Some(DISK)));
        let file = TrialSwap::File { size_bytes: 512 << 20, priority: None };
        assert_eq!(area("file = '512M'"), Ok(file));
        let disk = TrialSwap::Device { path: DISK.to_owned(), priority: None };
        assert_eq!(area("disk = true"), Ok(disk));
    }

    #[test]
    fn zswap_has_keys_of_its_own() {
        let wanted = ZswapSpec {
            max_pool_percent: Some(15),
            accept_threshold_percent: Some(80),
            shrinker: true,
            ..ZswapSpec::new("lz4")
        };
        let found = area("zswap = 'lz4'\npercent = 15\naccept = 80\nshrinker = true");
        assert_eq!(found, Ok(TrialSwap::Zswap(wanted)));
        assert_eq!(area("zswap = 'zstd'"), Ok(TrialSwap::Zswap(ZswapSpec::new("zstd"))));
    }

    #[test]
    fn what_is_no_area_is_refused() {
        for (bad, says) in [
            ("", "one of zram, file, disk and zswap"),
            ("zram = '1M'\nfile = '1M'", "one of zram, file, disk and zswap"),
            ("zswap = 'lz4'\nzram = '1M'", "no other keys"),
            ("zswap = 'lz4'\npriority = 1", "no other keys"),
            ("file = '1M'\nshrinker = true", "are of zswap"),
            ("zswap = 'lz4'\npercent = 0", "from 1 to 100"),
            ("file = '1M'\nlimit = '1M'", "of zram alone"),
            ("disk = true\nwriteback = { every = '5s' }", "of zram alone"),
            ("zram = '1M'\nwriteback = { every = '1500ms' }", "whole seconds"),
            ("zram = '1M'\nwriteback = { every = '5s', disk = true }", "unknown field"),
            ("zram = '1M'\nwriteback = {}", "missing field `every`"),
            ("file = '1K'", "at least 1M"),
            ("file = '512'", "as 256M or 2G"),
            ("zram = '1M'\npriority = -2", "0 to 32767"),
            ("zram = '1M'\nalgorithm = '../x'", "name of an algorithm"),
            ("ram = '1M'", "unknown field"),
        ] {
            let why = area(bad).unwrap_err();
            assert!(why.contains(says), "{bad}: {why}");
        }
    }
}
