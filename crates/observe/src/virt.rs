// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects the kind of virtual machine, with the names of systemd-detect-virt.
//!
//! On x86 the CPU flag `hypervisor` shows that this is a virtual machine. The kind is determined
//! from the DMI names of the firmware, the clock sources that the kernel found, or the device tree.
//! No instruction (CPUID) is executed for it, so a recording gives the same answer as the machine.

use pagewise_model::{Name, Reading, Source};

use pagewise_hostfs::text::words;
use pagewise_hostfs::{HostRoot, ReadHost, absolute_path};

/// Number of bytes of `/proc/cpuinfo` that contain the flags of the first CPU; the whole file may
/// have 400 KiB.
const CPUINFO_HEAD: usize = 4096;

pub(crate) fn read(host: &HostRoot) -> Reading<Name> {
    let flag = hypervisor_flag(host);
    if flag == Some(false) && !host.exists("sys/hypervisor/type") {
        return no_virtualization();
    }
    detect_xen(host)
        .or_else(|| detect_by_firmware(host))
        .or_else(|| detect_by_clocks(host))
        .or_else(|| detect_by_device_tree(host))
        .or_else(|| flag.filter(|&on| on).and_then(|_| read_kind("vm-other", "proc/cpuinfo")))
        .unwrap_or_else(no_virtualization)
}

fn no_virtualization() -> Reading<Name> {
    Reading::absent("no hypervisor seen", Source::file("/proc/cpuinfo"))
}

fn read_kind(kind: &str, path: &str) -> Option<Reading<Name>> {
    Some(Reading::found(Name::from(kind), Source::file(absolute_path(path))))
}

/// Reads a file of one line, which may be empty.
fn line(host: &HostRoot, path: &str) -> Option<String> {
    let bytes = host.bytes(path).ok()?;
    Some(String::from_utf8_lossy(bytes.trim_ascii()).into_owned())
}

/// Whether the CPU flags of `/proc/cpuinfo` contain `hypervisor`; `None` if the file has no line of
/// flags.
fn hypervisor_flag(host: &HostRoot) -> Option<bool> {
    let head = host.head("proc/cpuinfo", CPUINFO_HEAD).ok()?;
    let flags = head.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"flags"))?;
    Some(words(flags).any(|flag| flag == b"hypervisor"))
}

/// The hypervisor of a Xen guest. Xen's first domain (dom0) is no guest: it runs on the physical
/// machine.
fn detect_xen(host: &HostRoot) -> Option<Reading<Name>> {
    const PATH: &str = "sys/hypervisor/type";
    if line(host, PATH)? != "xen" {
        return None;
    }
    let first = line(host, "proc/xen/capabilities").is_some_and(|all| all.contains("control_d"));
    if first { None } else { read_kind("xen", PATH) }
}

/// Prefixes of the firmware's DMI strings, and the kind that they mean.
const FIRMWARE: [(&str, &str); 16] = [
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Amazon EC2", "amazon"),
    ("Google Compute Engine", "google"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Apple Virtualization", "apple"),
    ("Hyper-V", "microsoft"),
    ("QEMU", "qemu"),
];

fn detect_by_firmware(host: &HostRoot) -> Option<Reading<Name>> {
    let files = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"];
    let named = files.into_iter().find_map(|file| {
        let path = format!("sys/class/dmi/id/{file}");
        Some((kind_of(&line(host, &path)?, file)?, path))
    });
    let (kind, path) = named?;
    if is_bare_metal(host) {
        return None;
    }
    // QEMU's DMI strings are the same with and without KVM
    if kind == "qemu" {
        detect_by_clocks(host).or_else(|| read_kind(kind, &path))
    } else {
        read_kind(kind, &path)
    }
}

fn kind_of(name: &str, file: &str) -> Option<&'static str> {
    // Microsoft is the vendor of physical machines as well
    if file == "product_name" && name == "Virtual Machine" {
        return Some("microsoft");
    }
    FIRMWARE.iter().find(|(start, _)| name.starts_with(start)).map(|(_, kind)| *kind)
}

/// Whether this is one of Amazon's bare metal instances, whose firmware names the same vendor as
/// that of virtual machines.
fn is_bare_metal(host: &HostRoot) -> bool {
    line(host, "sys/class/dmi/id/product_name").is_some_and(|name| name.contains(".metal"))
}

const CLOCKS: [(&[u8], &str); 3] =
    [(b"kvm-clock", "kvm"), (b"xen", "xen"), (b"hyperv_clocksource_tsc_page", "microsoft")];

fn detect_by_clocks(host: &HostRoot) -> Option<Reading<Name>> {
    const PATH: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    let offered = host.bytes(PATH).ok()?;
    let is_offered = |clock: &[u8]| words(&offered).any(|word| word == clock);
    let (_, kind) = CLOCKS.into_iter().find(|(clock, _)| is_offered(clock))?;
    read_kind(kind, PATH)
}

fn detect_by_device_tree(host: &HostRoot) -> Option<Reading<Name>> {
    let says = |path: &str, words: &[(&str, &str)]| {
        let text = line(host, path)?;
        let (_, kind) = words.iter().find(|(word, _)| text.contains(word))?;
        read_kind(kind, path)
    };
    let hypervisors = [("linux,kvm", "kvm"), ("xen", "xen"), ("vmware", "vmware")];
    let machines = [("linux,dummy-virt", "qemu"), ("qemu,pseries", "qemu")];
    says("proc/device-tree/hypervisor/compatible", &hypervisors)
        .or_else(|| says("proc/device-tree/compatible", &machines))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::host;

    const GUEST: (&str, &str) =
        ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n");
    const BARE: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme lahf_lm\n");
    const CLOCK: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

    fn kind(files: &[(&str, &str)]) -> Option<String> {
        read(&host(files.iter().copied())).value().map(ToString::to_string)
    }

    #[test]
    fn guests_are_known_by_firmware_clock_or_flag() {
        assert_eq!(kind(&[GUEST, (CLOCK, "tsc kvm-clock \n")]).unwrap(), "kvm");
        assert_eq!(kind(&[GUEST, ("sys/class/dmi/id/sys_vendor", "QEMU\n")]).unwrap(), "qemu");
        let both = [GUEST, ("sys/class/dmi/id/sys_vendor", "QEMU\n"), (CLOCK, "kvm-clock tsc\n")];
        assert_eq!(kind(&both).unwrap(), "kvm");
        let ec2 = [GUEST, ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"), (CLOCK, "kvm-clock\n")];
        assert_eq!(kind(&ec2).unwrap(), "amazon");
        let azure = [GUEST, ("sys/class/dmi/id/product_name", "Virtual Machine\n")];
        assert_eq!(kind(&azure).unwrap(), "microsoft");
        assert_eq!(kind(&[GUEST]).unwrap(), "vm-other");
    }

    #[test]
    fn real_machines_of_the_same_vendors_are_none() {
        assert_eq!(kind(&[BARE, ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")]), None);
        assert_eq!(kind(&[BARE, ("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n")]), None);
        let arm = [
            ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
            ("sys/class/dmi/id/product_name", "c7g.metal\n"),
        ];
        assert_eq!(kind(&arm), None);
        let first_domain =
            [BARE, ("sys/hypervisor/type", "xen\n"), ("proc/xen/capabilities", "control_d\n")];
        assert_eq!(kind(&first_domain), None);
        assert_eq!(kind(&[]), None);
    }

    #[test]
    fn machines_without_flags_are_known_by_their_device_tree() {
        let arm = [("proc/device-tree/hypervisor/compatible", "linux,kvm\0")];
        assert_eq!(kind(&arm).unwrap(), "kvm");
        assert_eq!(kind(&[("proc/device-tree/compatible", "linux,dummy-virt\0")]).unwrap(), "qemu");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            path in prop::sample::select(vec!["proc/cpuinfo", CLOCK, "sys/class/dmi/id/sys_vendor"]),
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = read(&host([(path, bytes)]));
        }
    }
}
