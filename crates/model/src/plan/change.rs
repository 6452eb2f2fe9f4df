// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a step of a plan changes ([`Change`]): everything that `apply` can do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Compressor};

/// One change of the machine. `from` is the state when the plan was made: `apply` refuses the step
/// if the state is another one now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Change {
    /// Writes the running value of a setting of the knob table.
    SetKnob {
        /// Name of the setting, such as `vm.swappiness`; if it exists several times, with the
        /// instance, as in `thp.size.enabled[64kB]`.
        target: String,
        /// The value when the plan was made, as read by [`crate::knob::KnobReading::active_word`].
        from: String,
        /// The new value, in the kernel's spelling.
        to: String,
    },
    /// Writes a whole configuration file, which all users may read. If `from` is `null`, the file
    /// is created: with mode 0755 if it is a start script of the init system (in `/etc/init.d`),
    /// otherwise 0644.
    WriteFile {
        /// Absolute path of the file, inside one of the folders that `apply` may write to.
        target: String,
        /// Contents of the file before the step; `null` if there was no file.
        from: Option<String>,
        /// Contents of the file after the step.
        to: String,
    },
    /// Creates a symbolic link, as `systemctl enable` and `systemctl mask` do.
    MakeLink {
        /// Absolute path of the link, inside one of the folders that `apply` may write to.
        target: String,
        /// What the link pointed to before the step; `null` if there was no link.
        from: Option<String>,
        /// What the link points to after the step: another unit or `/dev/null`.
        to: String,
    },
    /// Makes systemd reload its unit files.
    ReloadUnits {
        /// The text `systemd`: this change has no other target.
        target: String,
    },
    /// Creates a new zram device and enables swap on it.
    AddZramSwap {
        /// Path of the device, if another file of the same plan requires its number; `null` if the
        /// kernel chooses the number.
        target: Option<String>,
        /// Settings of the zram device.
        to: ZramSwap,
    },
    /// Creates a file without holes on a disk and enables swap on it.
    AddSwapFile {
        /// Path of the swap file, such as `/var/pagewise-swap-0`.
        target: String,
        /// Size of the file and priority of the swap area.
        to: SwapFilePlan,
    },
    /// Changes the priority of a zram swap device, by disabling swap on it and enabling it again.
    /// Its pages are read back into RAM in between, so that this is suitable only for a device that
    /// is empty or nearly so.
    SetSwapPriority {
        /// The swap area, by its name in `/proc/swaps`.
        target: String,
        /// Priority of the swap area when the plan was made.
        from: i32,
        /// The new priority; areas with a higher priority are filled first.
        to: i16,
    },
    /// Disables a swap area. All its pages are read back into RAM or move to other swap areas. If
    /// the area is a zram device, its memory is released as well.
    DrainSwap {
        /// The swap area, by its name in `/proc/swaps`.
        target: String,
        /// Size and use of the swap area when the plan was made.
        from: SwapHeld,
    },
}

/// The settings of a zram device that is used as swap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZramSwap {
    /// The compression algorithm of the device, and its level.
    pub compressor: Compressor,
    /// Uncompressed capacity of the device.
    pub disksize_bytes: Bytes,
    /// Limit on the RAM that the device uses; `null` for no limit.
    pub mem_limit_bytes: Option<Bytes>,
    /// Priority of the swap area; areas with a higher priority are filled first.
    pub priority: i16,
}

/// Size and priority of a file that is used as swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwapFilePlan {
    /// Size of the file.
    pub size_bytes: Bytes,
    /// Priority of the swap area; areas with a higher priority are filled first. `null`: the kernel
    /// chooses one below all others.
    pub priority: Option<i16>,
}

/// The state of a swap area when a plan was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwapHeld {
    /// Size of the swap area.
    pub size_bytes: Bytes,
    /// How much of the swap area was in use.
    pub used_bytes: Bytes,
    /// Priority of the swap area.
    pub priority: i32,
}

/// Returns the mode of a configuration file that a plan creates at this path.
///
/// The mode is derived from the path and is not a part of the plan, so that nobody can make another
/// file executable by editing a plan or a journal.
#[must_use]
pub fn config_mode(path: &str) -> u32 {
    if path.starts_with("/etc/init.d/") { 0o755 } else { 0o644 }
}

impl Change {
    /// Name of the kind of change: the value of `action` in the JSON document.
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
    fn only_start_scripts_are_executable() {
        let modes = [
            "/etc/init.d/pagewise",
            "/etc/sysctl.d/90-pagewise.conf",
            "/etc/runit/core-services/99-pagewise.sh",
        ];
        assert_eq!(modes.map(config_mode), [0o755, 0o644, 0o644]);
    }

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
