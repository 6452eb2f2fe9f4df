// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tells the machine of a plan from others, without naming it.

use super::PlannedMachine;

/// The offset and the prime of the 64-bit FNV-1a hash.
const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0000_0100_0000_01b3);

impl PlannedMachine {
    /// The hash of the contents of `/etc/machine-id`, in sixteen hexadecimal digits; `None` if the file is
    /// empty. An id has 128 random bits, so a plan that is passed on does not give it away.
    #[must_use]
    pub fn hash_machine_id(machine_id: &str) -> Option<String> {
        let id = machine_id.trim();
        let bytes = b"pagewise plan ".iter().chain(id.as_bytes());
        let hash = bytes.fold(FNV.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV.1));
        (!id.is_empty()).then(|| format!("{hash:016x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_one_hash_and_another_machine_another() {
        let hash = |id: &str| PlannedMachine::hash_machine_id(id);
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(hash(id), hash(&format!("{id}\n")));
        assert_eq!(hash(id).unwrap().len(), 16);
        assert_ne!(hash(id), hash("0123456789abcdef0123456789abcdee"));
        assert_eq!(hash("\n"), None);
    }
}
