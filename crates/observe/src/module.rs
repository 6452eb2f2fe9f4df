// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds a kernel module in the module folder, without depmod or modinfo.
//!
//! `modules.dep` lists loadable modules, one file and its dependencies per line; `modules.builtin`
//! lists what is built in. The first may have 700 KiB, so it is searched as bytes, and only the
//! lines asked for are kept or recorded. NixOS has the folder at another path.

use pagewise_model::{Evidence, Name};

use crate::kconfig;
use pagewise_hostfs::text::{Text, keep_lines};
use pagewise_hostfs::{HostRoot, ReadHost, absolute_path};

/// Possible locations of the folder with the kernel's modules.
const FOLDERS: [&str; 2] = ["lib/modules", "run/booted-system/kernel-modules/lib/modules"];

/// The modules that pagewise searches for; all other lines of the lists are dropped.
pub(crate) const ASKED: &[&str] = &["zram", "zstd"];

/// Whether a module is loadable or built in, with the line that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModuleSource {
    /// A module in a file that modprobe can load.
    Loadable(Evidence),
    /// A module built into the kernel.
    BuiltIn(Evidence),
}

/// Searches the kernel's lists of modules for `module`; `None` if no list contains it or none can
/// be read.
pub(crate) fn find(host: &HostRoot, module: &str) -> Option<ModuleSource> {
    let release = kconfig::release(host)?;
    FOLDERS.iter().find_map(|folder| {
        let listed = |list: &str| line_of(host, &format!("{folder}/{release}/{list}"), module);
        listed("modules.dep")
            .map(ModuleSource::Loadable)
            .or_else(|| listed("modules.builtin").map(ModuleSource::BuiltIn))
    })
}

fn line_of(host: &HostRoot, path: &str, module: &str) -> Option<Evidence> {
    let kept = host.excerpt(path, excerpt).ok()?;
    let text = Text::new(&absolute_path(path), kept);
    let line = text.lines().find(|line| is_file_of(line.bytes, module))?;
    let file = file_of(line.bytes);
    let shown = Name::from_bytes(&file[..file.len().min(200)]).to_string();
    Some(Evidence::new(&line.source(), shown))
}

/// Keeps the lines about the modules that were searched for, at their line numbers.
fn excerpt(raw: &[u8]) -> Vec<u8> {
    keep_lines(raw, |line| ASKED.iter().any(|module| is_file_of(line, module)))
}

/// The path at the start of a line of a module list.
fn file_of(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
    &line[..end]
}

/// Whether a line of a module list is that of `…/module.ko`, compressed or not; `-` and `_` are the
/// same in module names.
fn is_file_of(line: &[u8], module: &str) -> bool {
    let file = file_of(line);
    let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or(file);
    let Some((stem, end)) = name.split_at_checked(module.len()) else { return false };
    let same = |(a, b): (&u8, u8)| *a == b || (*a == b'-' && b == b'_');
    end.starts_with(b".ko") && stem.iter().zip(module.bytes()).all(same)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;
    use pagewise_hostfs::Entry;

    fn host(list: &str, text: &str) -> HostRoot {
        let list = format!("lib/modules/6.12.107/{list}");
        testing::host([(list.as_str(), text), ("proc/sys/kernel/osrelease", "6.12.107\n")])
    }

    #[test]
    fn a_module_is_found_packed_or_not() {
        for end in ["", ".xz", ".zst", ".gz"] {
            let dep = format!(
                "kernel/mm/zsmalloc.ko{end}:\n\
                 kernel/drivers/block/zram/zram.ko{end}: kernel/mm/zsmalloc.ko{end}\n"
            );
            let Some(ModuleSource::Loadable(evidence)) = find(&host("modules.dep", &dep), "zram")
            else {
                panic!("zram.ko{end} not found")
            };
            assert_eq!(evidence.line, Some(2));
            assert_eq!(evidence.value, format!("kernel/drivers/block/zram/zram.ko{end}"));
        }
    }

    #[test]
    fn what_merely_needs_or_resembles_a_module_is_not_it() {
        let dep = "kernel/drivers/x/user.ko: kernel/drivers/block/zram/zram.ko\n\
                   kernel/drivers/block/zram/zram2.ko:\nkernel/xzram.ko:\nzra\n";
        assert_eq!(find(&host("modules.dep", dep), "zram"), None);
    }

    #[test]
    fn built_in_is_told_from_loadable() {
        let builtin = host("modules.builtin", "kernel/drivers/block/zram/zram.ko\n");
        assert!(matches!(find(&builtin, "zram"), Some(ModuleSource::BuiltIn(_))));
    }

    #[test]
    fn a_recording_holds_only_the_lines_asked_about() {
        let live = host("modules.dep", "kernel/secret.ko:\nkernel/zram.ko:\n").start_remembering();
        let first = find(&live, "zram");
        let stored = live.into_remembered_files();
        let dep = stored.get("lib/modules/6.12.107/modules.dep");
        assert_eq!(dep, Some(&Entry::File(b"\nkernel/zram.ko:\n".to_vec())));
        assert_eq!(find(&HostRoot::memory(stored), "zram"), first);
    }

    proptest! {
        #[test]
        fn an_excerpt_of_an_excerpt_is_the_same(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(excerpt(&excerpt(&raw)), excerpt(&raw));
        }
    }
}
