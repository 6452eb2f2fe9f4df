// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `{ zram = "512M", algorithm = "lz4" }` in a file → a swap area of an arm.

use pagewise_model::TrialSwap;
use serde::{Deserialize, Serialize};

use crate::experiment::{in_range, large_enough, word};
use crate::workload::Size;

/// The first disk of a guest.
const DISK: &str = "/dev/vda";

/// As written: one of `zram`, `file` and `disk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Area {
    #[serde(skip_serializing_if = "Option::is_none")]
    zram: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Size>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disk: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i16>,
}

impl Area {
    /// The area that is meant.
    pub(super) fn wanted(&self) -> Result<TrialSwap, String> {
        let priority = self.priority.map(in_range).transpose()?;
        let of_zram = self.algorithm.is_some() || self.limit.is_some();
        let area = match (self.zram, self.file, self.disk) {
            (Some(size), None, false) => {
                return Ok(TrialSwap::Zram {
                    size_bytes: large_enough(size.0)?,
                    algorithm: self.algorithm.as_deref().map(word).transpose()?,
                    mem_limit_bytes: self.limit.map(|limit| large_enough(limit.0)).transpose()?,
                    priority,
                });
            }
            (None, Some(size), false) => {
                TrialSwap::File { size_bytes: large_enough(size.0)?, priority }
            }
            (None, None, true) => TrialSwap::Device { path: DISK.to_owned(), priority },
            _ => return Err("expected one of zram, file and disk in each area of swap".to_owned()),
        };
        if of_zram { Err("algorithm and limit are of zram alone".to_owned()) } else { Ok(area) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(text: &str) -> Result<TrialSwap, String> {
        toml::from_str::<Area>(text).map_err(|error| error.to_string())?.wanted()
    }

    #[test]
    fn each_kind_has_its_keys() {
        let zram = area("zram = '512M'\nalgorithm = 'lz4'\nlimit = '100M'\npriority = 10").unwrap();
        let expected = TrialSwap::Zram {
            size_bytes: 512 << 20,
            algorithm: Some("lz4".to_owned()),
            mem_limit_bytes: Some(100 << 20),
            priority: Some(10),
        };
        assert_eq!(zram, expected);
        let file = TrialSwap::File { size_bytes: 512 << 20, priority: None };
        assert_eq!(area("file = '512M'"), Ok(file));
        let disk = TrialSwap::Device { path: DISK.to_owned(), priority: None };
        assert_eq!(area("disk = true"), Ok(disk));
    }

    #[test]
    fn what_is_no_area_is_refused() {
        for (bad, says) in [
            ("", "one of zram, file and disk"),
            ("zram = '1M'\nfile = '1M'", "one of zram, file and disk"),
            ("file = '1M'\nlimit = '1M'", "of zram alone"),
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
