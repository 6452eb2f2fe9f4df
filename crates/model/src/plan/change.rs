// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one step of a plan changes ([`Change`]): the whole vocabulary of `apply`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Compressor};

/// One change of the machine. `from` is what was there when the plan was made: `apply` refuses the step if
/// something else is there now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Change {
    /// Writes the running value of a setting of the knob table.
    SetKnob {
        /// Its name, as `vm.swappiness`; one of several as `thp.size.enabled[64kB]`.
        target: String,
        /// The running value, as [`crate::knob::KnobReading::active`] reads it.
        from: String,
        /// The new value, as the kernel accepts it.
        to: String,
    },
    /// Writes a configuration file, whole, readable by everybody (mode 0644). Without a `from` it is new.
    WriteFile {
        /// Absolute path, inside one of the folders that `apply` knows.
        target: String,
        /// Its contents before; `null` if there was no file.
        from: Option<String>,
        /// Its contents after.
        to: String,
    },
    /// Makes a symbolic link, as `systemctl enable` and `systemctl mask` do.
    MakeLink {
        /// Absolute path of the link, inside one of the folders that `apply` knows.
        target: String,
        /// Where it pointed before; `null` if there was no link.
        from: Option<String>,
        /// Where it points after: another unit or `/dev/null`.
        to: String,
    },
    /// Makes systemd read its unit files again.
    ReloadUnits {
        /// Always `systemd`.
        target: String,
    },
    /// Makes a new zram device and switches swap on it.
    AddZramSwap {
        /// The device, if its number is fixed by a file of the same plan; otherwise `null`, and the kernel
        /// chooses the number.
        target: Option<String>,
        /// How it is set up.
        to: ZramSwap,
    },
    /// Makes a file on a disk, without holes, and switches swap on it.
    AddSwapFile {
        /// The file, as `/var/pagewise-swap-0`.
        target: String,
        /// Its size and when it is filled.
        to: SwapFilePlan,
    },
    /// Changes the priority of a zram device that is used as swap: switches it off and on again. Its pages are read
    /// back in between, so this is for an area that is empty or nearly so.
    SetSwapPriority {
        /// The area, as `/proc/swaps` names it.
        target: String,
        /// Its priority when the plan was made.
        from: i32,
        /// The new priority; higher is filled first.
        to: i16,
    },
    /// Switches a swap area off, which reads all its pages back into RAM or into other swap. Of a zram device
    /// the memory is released too.
    DrainSwap {
        /// The area, as `/proc/swaps` names it.
        target: String,
        /// Its size and what it held when the plan was made.
        from: SwapHeld,
    },
}

/// A zram device that is used as swap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZramSwap {
    /// Algorithm and level.
    pub compressor: Compressor,
    /// How much it stores at most, before compression.
    pub disksize_bytes: Bytes,
    /// How much RAM it takes at most; `null` is no limit.
    pub mem_limit_bytes: Option<Bytes>,
    /// The priority of the swap; higher is filled first.
    pub priority: i16,
}

/// A file that is used as swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwapFilePlan {
    /// The size of the file.
    pub size_bytes: Bytes,
    /// The priority of the swap; higher is filled first. `null`: the kernel chooses one below all others.
    pub priority: Option<i16>,
}

/// A swap area when a plan was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwapHeld {
    /// The size of the area.
    pub size_bytes: Bytes,
    /// How much of it was in use.
    pub used_bytes: Bytes,
    /// Its priority.
    pub priority: i32,
}

impl Change {
    /// The `action` of the JSON document.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::SetKnob { .. } => "set-knob",
            Self::WriteFile { .. } => "write-file",
            Self::MakeLink { .. } => "make-link",
            Self::ReloadUnits { .. } => "reload-units",
            Self::AddZramSwap { .. } => "add-zram-swap",
            Self::AddSwapFile { .. } => "add-swap-file",
            Self::SetSwapPriority { .. } => "set-swap-priority",
            Self::DrainSwap { .. } => "drain-swap",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_action_is_the_one_in_json() {
        let held = SwapHeld {
            size_bytes: Bytes::new(1 << 30),
            used_bytes: Bytes::new(4096),
            priority: -2,
        };
        let zram = ZramSwap {
            compressor: Compressor::new("zstd"),
            disksize_bytes: Bytes::new(1 << 30),
            mem_limit_bytes: None,
            priority: 100,
        };
        let (path, to) = ("/etc/sysctl.d/x.conf".to_owned(), "vm.swappiness = 150\n".to_owned());
        let all = [
            Change::SetKnob { target: "vm.swappiness".into(), from: "60".into(), to: "1".into() },
            Change::WriteFile { target: path.clone(), from: None, to: to.clone() },
            Change::MakeLink { target: path, from: None, to },
            Change::ReloadUnits { target: "systemd".into() },
            Change::AddZramSwap { target: None, to: zram },
            Change::AddSwapFile {
                target: "/var/pagewise-swap-0".into(),
                to: SwapFilePlan { size_bytes: Bytes::new(1 << 30), priority: None },
            },
            Change::SetSwapPriority { target: "/dev/zram1".into(), from: -2, to: 100 },
            Change::DrainSwap { target: "/dev/zram1".into(), from: held },
        ];
        for change in all {
            let json = serde_json::to_value(&change).unwrap();
            assert_eq!(json["action"], change.action());
            assert_eq!(serde_json::from_value::<Change>(json).unwrap(), change);
        }
    }
}
