// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the CPUs of a host for hardware counters: their numbers, and the model if they are
//! Intel's.

use pagewise_hostfs::text::{lines, number};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues};

/// The CPUs of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processors {
    /// Numbers of the CPUs (`sys/devices/system/cpu`), ascending.
    pub numbers: Vec<u32>,
    /// The model of the first CPU, if it is an Intel CPU of family 6 (`proc/cpuinfo`).
    pub intel_model: Option<u32>,
}

impl Processors {
    /// Reads the CPUs of a host.
    pub fn read(host: &HostRoot) -> Self {
        let told = host.bytes("proc/cpuinfo").unwrap_or_default();
        let numbers = host.list_numbers("sys/devices/system/cpu", "cpu");
        Self { numbers, intel_model: model(&told) }
    }
}

/// The model of the first CPU, if it is an Intel CPU of family 6.
fn model(told: &[u8]) -> Option<u32> {
    let value = |key: &[u8]| {
        lines(told).find_map(|line| {
            let at = line.iter().position(|&byte| byte == b':')?;
            (line[..at].trim_ascii() == key).then(|| line[at + 1..].trim_ascii())
        })
    };
    let ours = value(b"vendor_id")? == b"GenuineIntel" && value(b"cpu family")? == b"6";
    number(value(b"model")?).filter(|_| ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    #[test]
    fn only_intels_models_are_told() {
        let model = |vendor: &str, model: u32| {
            let told = format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: 6\nmodel\t\t: {model}\nmodel name\t: X 7\n\n"
            );
            Processors::read(&host([("proc/cpuinfo", told)])).intel_model
        };
        assert_eq!(model("GenuineIntel", 85), Some(85));
        assert_eq!(model("AuthenticAMD", 85), None);
        assert_eq!(Processors::read(&host([("proc/version", "")])), Processors::default());
    }
}
