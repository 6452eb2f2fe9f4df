// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of the help of `lab workload` that lists the keys of each kind of workload.

use pagewise_workload::{KINDS, Workload};

/// A paragraph of help for each kind of workload: its keys with their defaults.
pub(crate) fn workload_keys() -> String {
    let of = |kind: &str| {
        let keys = Workload::keys(kind).into_iter().map(|(key, value)| format!("{key}={value}"));
        format!("{kind}: {}", keys.collect::<Vec<_>>().join(" "))
    };
    format!("Keys and their defaults:\n\n{}", KINDS.map(of).join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_key() {
        let keys = workload_keys();
        for key in ["swap: code=48M", "step=64K", "sharers=1", "redis: ", "records=200000"] {
            assert!(keys.contains(key), "{keys}");
        }
    }
}
