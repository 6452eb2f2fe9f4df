// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the files to load for given modules, dependencies first.
//!
//! Debian's packages contain no `modules.dep`, which is made at installation. So dependencies are
//! read from the `.modinfo` section of each module. The package does contain `modules.builtin`, by
//! which built-in modules are distinguished from modules that this kernel lacks. A module that the
//! kernel lacks is an error only if the user asked for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::files;
use crate::vmlinuz;

/// A kernel module that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    /// Name of the module as `/proc/modules` prints it.
    pub(crate) name: String,
    /// Contents of the module's file, decompressed.
    pub(crate) bytes: Vec<u8>,
}

/// The module files of one kernel.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Modules {
    /// Lists the modules below a folder such as `/lib/modules/<release>`.
    pub(crate) fn list_below(folder: &Path) -> Result<Self, Error> {
        let built_in = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let built_in = built_in.lines().filter_map(|line| module_name(Path::new(line))).collect();
        let mut modules = Self { built_in, ..Self::default() };
        for path in files::files_below(folder)? {
            if let Some(name) = module_name(&path) {
                modules.files.insert(name, path);
            }
        }
        Ok(modules)
    }

    /// Whether this kernel has a module of this name, as a file or built in.
    pub(crate) fn has(&self, name: &str) -> bool {
        let name = canonical_name(name);
        self.files.contains_key(&name) || self.built_in.contains(&name)
    }

    /// The requested modules and their dependencies, in the order in which they can be loaded.
    pub(crate) fn closure(
        &self,
        names: &[&str],
        read: impl Fn(&Path) -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<Module>, Error> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for name in names {
            self.add(&canonical_name(name), &read, &mut seen, &mut found)?;
        }
        Ok(found)
    }

    fn add(
        &self,
        name: &str,
        read: &impl Fn(&Path) -> Result<Vec<u8>, Error>,
        seen: &mut BTreeSet<String>,
        found: &mut Vec<Module>,
    ) -> Result<(), Error> {
        let Some((name, path)) = self.find(name) else { return Ok(()) };
        if !seen.insert(name.clone()) {
            return Ok(());
        }
        let packed = read(path)?;
        let file = path.to_string_lossy();
        let bytes = vmlinuz::unpack_module(&file, packed).ok_or_else(|| Error::Unusable {
            path: path.clone(),
            what: "expected a module, packed with xz, zstd or gzip or not at all".to_owned(),
        })?;
        for needed in dependencies(&bytes) {
            self.add(&needed, read, seen, found)?;
        }
        found.push(Module { name: name.clone(), bytes });
        Ok(())
    }

    /// Finds the file of a module. A soft dependency may be an alias of an algorithm,
    /// `crypto-crc32c` or `crc32c`. Only depmod knows which modules have the alias, but the
    /// portable implementation of the algorithm is a module called `crc32c` or `crc32c_generic`.
    fn find(&self, name: &str) -> Option<(&String, &PathBuf)> {
        let algorithm = name.strip_prefix("crypto_").unwrap_or(name);
        let generic = format!("{algorithm}_generic");
        [name, algorithm, &generic].into_iter().find_map(|name| self.files.get_key_value(name))
    }
}

/// Name of the module in a file: `lzo_rle` for `lzo-rle.ko.xz`; `None` if the file is not a module.
fn module_name(path: &Path) -> Option<String> {
    let (name, ending) = path.file_name()?.to_str()?.split_once(".ko")?;
    matches!(ending, "" | ".xz" | ".zst" | ".gz").then(|| canonical_name(name))
}

/// A module's name in the form in which names are compared: for the kernel, `-` and `_` are the
/// same.
fn canonical_name(name: &str) -> String {
    name.replace('-', "_")
}

/// The modules that a module's `.modinfo` lists as dependencies: `depends=` (required) and
/// `softdep=pre:` (used if the kernel has it).
fn dependencies(module: &[u8]) -> Vec<String> {
    let strings = module.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let mut needs = Vec::new();
    for text in strings {
        if let Some(names) = text.strip_prefix("depends=") {
            needs.extend(names.split(',').filter(|name| !name.is_empty()).map(canonical_name));
        }
        if let Some(names) = text.strip_prefix("softdep=pre:") {
            let before = names.split("post:").next().unwrap_or_default();
            needs.extend(before.split_whitespace().map(canonical_name));
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorContext;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, needs) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("\x7fELF\0license=GPL\0depends={needs}\0name=x\0")).unwrap();
        }
        folder
    }

    fn order(folder: &Path, names: &[&str]) -> Vec<String> {
        let read = |path: &Path| fs::read(path).with_path(path);
        let found = Modules::list_below(folder).unwrap().closure(names, read).unwrap();
        found.into_iter().map(|module| module.name).collect()
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let folder = folder(&[
            ("kernel/drivers/zram.ko", "zsmalloc,lz4-x"),
            ("kernel/mm/zsmalloc.ko", ""),
            ("kernel/crypto/lz4-x.ko", "zsmalloc,builtin_one"),
        ]);
        assert_eq!(order(folder.path(), &["zram", "lz4_x"]), ["zsmalloc", "lz4_x", "zram"]);
        assert_eq!(order(folder.path(), &["absent"]), Vec::<String>::new());
    }

    /// Dependencies by alias must be found: without them, ext4 of Debian's generic kernels loads
    /// but cannot mount anything.
    #[test]
    fn an_algorithm_that_is_needed_is_found_by_its_alias() {
        let folder = folder(&[
            ("kernel/fs/ext4.ko", "jbd2"),
            ("kernel/fs/jbd2.ko", ""),
            ("kernel/arch/crc32c-intel.ko", ""),
            ("kernel/crypto/crc32c_generic.ko", ""),
            ("kernel/crypto/lz4.ko", ""),
        ]);
        let soft = "license=GPL\0softdep=pre: crypto-crc32c\0softdep=pre: crypto-lz4 crypto-none\0depends=\0";
        fs::write(folder.path().join("kernel/fs/jbd2.ko"), soft).unwrap();
        assert_eq!(order(folder.path(), &["ext4"]), ["crc32c_generic", "lz4", "jbd2", "ext4"]);
        fs::write(folder.path().join("kernel/fs/jbd2.ko"), soft.replace("crypto-", "")).unwrap();
        assert_eq!(order(folder.path(), &["ext4"]), ["crc32c_generic", "lz4", "jbd2", "ext4"]);
    }

    #[test]
    fn what_is_built_in_is_had_and_not_loaded() {
        let folder = folder(&[("kernel/a.ko.xz", "")]);
        fs::write(folder.path().join("modules.builtin"), "kernel/fs/x-y/x-y.ko\n").unwrap();
        let modules = Modules::list_below(folder.path()).unwrap();
        assert!(modules.has("a") && modules.has("x_y") && modules.has("x-y"));
        assert!(!modules.has("kernel") && !modules.has("b"));
        assert_eq!(order(folder.path(), &["x-y"]), Vec::<String>::new());
    }

    #[test]
    fn modules_that_need_each_other_end() {
        let folder = folder(&[("a.ko", "b"), ("b.ko", "a")]);
        assert_eq!(order(folder.path(), &["a"]), ["b", "a"]);
    }

    #[test]
    fn a_damaged_module_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.ko.xz"), b"no xz").unwrap();
        let modules = Modules::list_below(folder.path()).unwrap();
        let error = modules.closure(&["a"], |path| fs::read(path).with_path(path)).unwrap_err();
        assert!(error.to_string().contains("a.ko.xz"), "{error}");
    }
}
