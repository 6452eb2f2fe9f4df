// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that are common to many machines. Only these are kept unchanged in a recording.

/// Programs whose presence reveals nothing about the machine's owner; their names are as the kernel
/// truncates them, to 15 bytes.
#[rustfmt::skip]
pub(super) const PROGRAMS: &[&str] = &[
    // boot and system services
    "init", "systemd", "(sd-pam)", "systemd-journal", "systemd-journald", "systemd-udevd",
    "systemd-logind", "systemd-resolve", "systemd-resolved", "systemd-network", "systemd-networkd",
    "systemd-timesyn", "systemd-timesyncd", "systemd-oomd", "systemd-machine", "systemd-userdbd",
    "systemd-userwor", "(udev-worker)", "dbus-daemon", "dbus-broker", "dbus-broker-lau", "dbus",
    "polkitd", "polkit", "NetworkManager", "ModemManager", "wpa_supplicant", "chronyd", "chrony",
    "ntpd", "cron", "crond", "atd", "rsyslogd", "rsyslog", "auditd", "agetty", "login", "sshd",
    "ssh", "sshd-session", "sshd-auth", "sudo", "su", "udisksd", "udisks2", "upowerd",
    "accounts-daemon", "snapd", "packagekitd", "fwupd", "multipathd", "irqbalance", "earlyoom",
    "tuned", "thermald", "smartd", "acpid", "unattended-upgr", "qemu-ga", "zram-generator",
    // shells and tools
    "bash", "sh", "dash", "zsh", "fish", "ash", "busybox", "tmux", "tmux: server", "screen", "top",
    "htop", "vim", "nvim", "emacs", "nano", "less", "cat", "sleep", "git", "rsync", "tar", "gzip",
    "xz", "zstd", "pagewise", "stress-ng", "fio",
    // compilers and build tools
    "make", "ninja", "cmake", "cargo", "rustc", "cc", "cc1", "cc1plus", "gcc", "g++", "clang",
    "clang++", "as", "ld", "ld.lld", "mold", "collect2", "lto1", "rust-analyzer", "clangd", "go",
    "gopls", "bazel", "ccache", "sccache",
    // interpreters and runtimes of programming languages
    "java", "node", "python", "python3", "ruby", "perl", "php", "php-fpm", "beam.smp", "erl",
    "dotnet", "mono", "deno", "bun", "Rscript", "R", "julia", "lua",
    // databases, queues and caches
    "redis-server", "redis", "valkey-server", "valkey", "memcached", "keydb-server", "dragonfly",
    "postgres", "postgresql", "postmaster", "pgbouncer", "mysqld", "mysql", "mariadbd", "mariadb",
    "mongod", "mongos", "clickhouse", "clickhouse-serv", "cockroach", "etcd", "consul", "influxd",
    "rabbitmq-server", "nats-server", "sqlite3",
    // web servers and proxies
    "nginx", "apache2", "httpd", "caddy", "haproxy", "envoy", "traefik", "varnishd", "lighttpd",
    "squid",
    // containers and virtual machines
    "dockerd", "docker", "docker-proxy", "docker-init", "containerd", "containerd-shim",
    "containerd-shim-runc-v2", "runc", "crun", "crio", "conmon", "podman", "buildkitd", "kubelet",
    "kube-proxy", "kube-apiserver", "kube-scheduler", "kube-controller", "coredns", "pause", "tini",
    "dumb-init", "s6-svscan", "supervisord", "lxcfs", "libvirtd", "virtqemud", "qemu-system-x86",
    "qemu-system-aar", "firecracker", "cloud-hypervis", "virtiofsd",
    // monitoring
    "prometheus", "node_exporter", "grafana", "grafana-server", "telegraf", "collectd", "below",
    "atop", "sysstat", "sadc", "vector", "fluentd", "fluent-bit", "filebeat",
    // desktop
    "Xorg", "Xwayland", "gnome-shell", "plasmashell", "kwin_wayland", "kwin_x11", "sway", "gdm",
    "gdm3", "sddm", "lightdm", "pipewire", "pipewire-pulse", "wireplumber", "pulseaudio", "firefox",
    "firefox-bin", "firefox-esr", "Web Content", "Isolated Web Co", "WebExtensions",
    "Privileged Cont", "Socket Process", "chrome", "chromium", "code", "thunderbird", "soffice.bin",
    "electron",
    // kernel threads that this program reads
    "kthreadd", "khugepaged", "ksmd", "oom_reaper", "kworker",
];

/// Cgroup folders that systemd, container engines and the kernel make on all machines.
#[rustfmt::skip]
pub(super) const GROUPS: &[&str] = &[
    "", "..", "-.slice", "init.scope", "system.slice", "user.slice", "machine.slice", "app.slice",
    "session.slice", "background.slice", "kubepods", "kubepods.slice", "kubepods-burstable.slice",
    "kubepods-besteffort.slice", "burstable", "besteffort", "docker", "containerd", "podman",
    "machine", "lxc", "system", "user", "init", "supervisor", "payload", "system-getty.slice",
    "system-modprobe.slice", "system-serial\\x2dgetty.slice", "libpod_parent", "crio", "garden",
    "memory", "unified",
];

/// Beginnings of cgroup names that identify the container engine which created the cgroup. The
/// remaining name is replaced.
pub(super) const ENGINES: &[&str] =
    &["kubepods", "docker", "libpod", "lxc", "cri-containerd", "containerd", "crio", "garden"];

/// Names of units that every systemd has.
#[rustfmt::skip]
pub(super) const DEVICE_UNITS: &[&str] = &[
    "dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
    "sys-kernel-config.mount", "sys-fs-fuse-connections.mount", "proc-sys-fs-binfmt_misc.mount",
    "tmp.mount", "dbus.socket", "snapd.socket", "docker.socket",
];

/// Cgroup controllers, which are the names of mount points in cgroup version 1.
#[rustfmt::skip]
pub(super) const CONTROLLERS: &[&str] = &[
    "memory", "unified", "cpu", "cpuacct", "cpu,cpuacct", "cpuset", "blkio", "devices", "freezer",
    "pids", "hugetlb", "net_cls", "net_prio", "net_cls,net_prio", "perf_event", "rdma", "misc",
    "systemd",
];

/// Types of file systems on which a root folder or a swap file may be.
#[rustfmt::skip]
pub(super) const FILE_SYSTEMS: &[&str] = &[
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "overlay", "squashfs",
    "erofs", "tmpfs", "ramfs", "rootfs", "nfs", "nfs4", "9p", "virtiofs", "vfat", "exfat", "ntfs3",
    "jfs", "nilfs2", "reiserfs", "cgroup", "cgroup2", "proc", "sysfs", "devtmpfs", "debugfs",
];

/// Mount options that affect how memory is accounted or used.
#[rustfmt::skip]
pub(super) const MOUNT_OPTIONS: &[&str] = &[
    "rw", "ro", "memory", "cpu", "cpuacct", "cpuset", "blkio", "devices", "freezer", "pids",
    "hugetlb", "name=systemd", "nsdelegate", "favordynmods", "memory_localevents",
    "memory_recursiveprot", "memory_hugetlb_accounting", "discard", "huge=always", "huge=never",
    "huge=advise", "huge=within_size",
];

/// Words in the options of an overlay mount that identify the container engine which created it.
pub(super) const OVERLAYS: &[&str] = &["/docker/", "/containers/storage/", "containerd"];

/// Words in the name of a hardware vendor that identify a virtual machine.
#[rustfmt::skip]
pub(super) const MAKERS: &[&str] = &[
    "Alibaba Cloud", "Amazon EC2", "Apple Virtualization", "BHYVE", "Bochs", "DigitalOcean",
    "Firecracker", "Google Compute Engine", "Google", "Hetzner", "HVM domU", "Hyper-V",
    "innotek GmbH", "KVM", "KubeVirt",
    "Microsoft Corporation", "OpenStack", "Oracle Corporation", "Parallels", "QEMU", "Standard PC",
    "Virtual Machine", "VirtualBox", "VMware", "VMW", "Xen",
];

/// Prefixes of kernel modules that concern memory.
#[rustfmt::skip]
pub(super) const MODULES: &[&str] = &[
    "zram", "zsmalloc", "zswap", "z3fold", "zbud", "lz4", "lzo", "zstd", "842", "deflate", "damon",
    "crypto_", "xxhash",
];

/// Prefixes of build options that concern memory, after `CONFIG_`.
#[rustfmt::skip]
pub(super) const OPTIONS: &[&str] = &[
    "ZRAM", "ZSWAP", "ZSMALLOC", "ZPOOL", "ZBUD", "Z3FOLD", "CRYPTO_LZ", "CRYPTO_ZSTD",
    "CRYPTO_842", "CRYPTO_DEFLATE", "LRU_GEN", "TRANSPARENT_HUGEPAGE", "READ_ONLY_THP", "KSM",
    "PSI", "DAMON", "MEMCG", "CGROUP", "COMPACTION", "HUGETLB", "SWAP", "IDLE_PAGE", "PAGE_IDLE",
    "MEM_ALLOC_PROFILING", "MEM_SOFT_DIRTY", "NUMA", "MIGRATION", "USERFAULTFD",
    "PROC_PAGE_MONITOR", "PAGE_REPORTING", "IKCONFIG", "CMA", "SHMEM", "TMPFS", "MODULES",
    "DEBUG_FS", "VM_EVENT_COUNTERS", "SLUB", "MEMORY_", "ARCH_HAS_", "HAVE_ARCH_TRANSPARENT",
    "PT_RECLAIM", "SPLIT_P", "VIRTIO_BALLOON", "BALLOON", "TASKSTATS", "SCHED_INFO", "SCHEDSTATS",
];

/// Parameters on the kernel's command line that concern memory. A name that ends with a dot means
/// all parameters of that module.
#[rustfmt::skip]
pub(super) const PARAMETERS: &[&str] = &[
    "cgroup.memory", "cgroup_disable", "cgroup_enable", "cgroup_no_v1", "damon_lru_sort.",
    "damon_reclaim.", "damon_stat.", "default_hugepagesz", "fstab", "hugepages", "hugepagesz",
    "hugetlb_cma", "hugetlb_free_vmemmap", "init_on_alloc", "init_on_free", "mem", "numa_balancing",
    "page_reporting.", "psi", "swapaccount", "sysctl.kernel.numa_balancing", "sysctl.vm.",
    "systemd.swap", "systemd.unified_cgroup_hierarchy", "systemd.zram", "thp_anon",
    "thp_shmem", "transparent_hugepage", "transparent_hugepage_shmem", "transparent_hugepage_tmpfs",
    "zram.", "zswap.",
];

/// Names of files in sysctl.d that packages install.
#[rustfmt::skip]
pub(super) const SETTINGS_FILES: &[&str] = &[
    "10-bufferbloat.conf", "10-console-messages.conf", "10-ipv6-privacy.conf", "10-map-count.conf",
    "10-network-security.conf", "10-ptrace.conf", "10-zeropage.conf", "50-coredump.conf",
    "50-default.conf", "50-pid-max.conf", "55-magic-sysrq.conf", "99-protect-links.conf",
    "99-sysctl.conf",
];

/// Names of the profiles that the package of tuned installs.
#[rustfmt::skip]
pub(super) const TUNED_PROFILES: &[&str] = &[
    "accelerator-performance", "atomic-guest", "atomic-host", "aws", "balanced", "balanced-battery",
    "cpu-partitioning", "cpu-partitioning-powersave", "default", "desktop", "desktop-powersave",
    "enterprise-storage", "hpc-compute", "intel-sst", "laptop-ac-powersave",
    "laptop-battery-powersave", "latency-performance", "mssql", "network-latency",
    "network-throughput", "openshift", "openshift-control-plane", "openshift-node",
    "optimize-serial-console", "oracle", "postgresql", "powersave", "realtime",
    "realtime-virtual-guest", "realtime-virtual-host", "sap-hana", "sap-netweaver",
    "server-powersave", "spectrumscale-ece", "spindown-disk", "throughput-performance",
    "virtual-guest", "virtual-host",
];

/// Whether `text` is `before` followed by 1 to 4 digits.
pub(super) fn digits_after(text: &str, before: &str) -> bool {
    text.strip_prefix(before).is_some_and(is_short_number)
}

/// Whether the text consists of 1 to 4 digits; such a text is too short to contain a name.
pub(super) fn is_short_number(text: &str) -> bool {
    (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is a block device's kernel name: `zram0`, `sda2`, `nvme0n1p3`, `dm-0`.
pub(super) fn is_disk(name: &str) -> bool {
    const NUMBERED: [&str; 13] = [
        "zram", "zmerge", "loop", "dm-", "md", "nbd", "pmem", "ram", "sr", "bcache", "zd", "rbd",
        "drbd",
    ];
    const LETTERED: [&str; 4] = ["sd", "vd", "xvd", "hd"];
    NUMBERED.iter().any(|kind| digits_after(name, kind))
        || LETTERED.iter().filter_map(|kind| name.strip_prefix(kind)).any(is_letters_and_number)
        || name.strip_prefix("nvme").is_some_and(|rest| is_parts(rest, &['n', 'p']))
        || name.strip_prefix("mmcblk").is_some_and(|rest| is_parts(rest, &['p']))
        || name.strip_prefix("md").is_some_and(|rest| is_parts(rest, &['p']))
}

/// Whether the text consists of at most three letters, which a number may follow: `a`, `ab12`.
fn is_letters_and_number(rest: &str) -> bool {
    let digits = rest.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    let letters = rest.len() - digits.len();
    (1..=3).contains(&letters) && (digits.is_empty() || is_short_number(digits))
}

/// Whether the text consists of short numbers that are separated by these letters; the last numbers
/// may be missing.
fn is_parts(rest: &str, letters: &[char]) -> bool {
    match letters.split_first().and_then(|(&letter, more)| Some((rest.split_once(letter)?, more))) {
        Some(((number, rest), more)) => is_short_number(number) && is_parts(rest, more),
        None => is_short_number(rest),
    }
}

/// Returns a path with its numbers replaced by `N` and at most four components, by which similar
/// files are grouped.
pub(super) fn shape_of_path(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let shown = match parts.as_slice() {
        [first, second, third, .., last] if parts.len() > 4 => {
            format!("{first}/{second}/{third}/…/{last}")
        }
        _ => path.to_owned(),
    };
    let mut folded = String::with_capacity(shown.len());
    for letter in shown.chars() {
        match letter {
            digit if digit.is_ascii_digit() && folded.ends_with('N') => {}
            digit if digit.is_ascii_digit() => folded.push('N'),
            other => folded.push(other),
        }
    }
    folded
}

/// Whether the text is a number, a range or a device number, which consist only of digits and
/// separators.
pub(super) fn is_number(word: &[u8]) -> bool {
    let digit = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b',' | b':');
    word.len() <= 40 && word.iter().all(digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_known_by_the_kernels_shapes_only() {
        for disk in [
            "zram0",
            "sda",
            "sdab12",
            "vda1",
            "nvme0n1",
            "nvme0n1p3",
            "mmcblk0p1",
            "dm-0",
            "zmerge0",
        ] {
            assert!(is_disk(disk), "{disk}");
        }
        for other in ["zram-bob", "sd", "sda-bob", "nvme0bob", "sdabcd", "zram00000", "mybox", ""] {
            assert!(!is_disk(other), "{other}");
        }
    }

    #[test]
    fn shapes_fold_numbers() {
        assert_eq!(shape_of_path("proc/4711/environ"), "proc/N/environ");
        assert_eq!(shape_of_path("a/b/c/d/e/f1"), "a/b/c/…/fN");
    }
}
