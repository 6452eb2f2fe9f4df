// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cache folder with the kernels and userlands that were fetched. The cache never contains a
//! part of an entry.
//!
//! An entry is built in another folder and then renamed into place. Its manifest lists every file
//! with size and SHA-256; each file is verified against it whenever it is read. An entry with a
//! damaged file is fetched again at the next use. Readers hold a shared lock, and `prune` waits for
//! it.
//!
//! The folder is `$PAGEWISE_CACHE`, `$XDG_CACHE_HOME/pagewise` or `~/.cache/pagewise`. The
//! checksums lie beside the files, so they protect against damage only. Against other users, nobody
//! but this user and root may be able to write to the folder or to any folder above it (see
//! folder.rs).

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs};

use pagewise_model::Bytes;
use serde::{Serialize, Serializer};

use crate::entry::{MANIFEST, Manifest, Sum, build, compute_sums, recipe_version};
use crate::error::{Error, ErrorContext};
use crate::folder::Folder;
use crate::item::{Flavour, Item, SuiteKernel, is_suite};
use crate::lock::{Kind, Lock};
use crate::{apt, files};

const KERNELS: &str = "kernels";
const USERLANDS: &str = "userlands";
/// Maximum size of a manifest in bytes. Manifests of Debian's kernels have 190 KB.
const LARGEST_MANIFEST: u64 = 16 << 20;

/// Environment variables that may name the cache folder, in order of precedence, and the cache's
/// path below each.
const VARIABLES: [(&str, &str); 3] =
    [("PAGEWISE_CACHE", ""), ("XDG_CACHE_HOME", "pagewise"), ("HOME", ".cache/pagewise")];

/// The cache folder, opened.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: Arc<Folder>,
    kernels: Arc<Folder>,
    userlands: Arc<Folder>,
}

/// An entry in use: `prune` does not remove it while this value exists.
#[derive(Debug)]
pub struct CacheEntry {
    item: Item,
    folder: Folder,
    manifest: Manifest,
    _lock: Lock,
}

impl CacheEntry {
    pub(crate) fn item(&self) -> &Item {
        &self.item
    }

    pub(crate) fn release(&self) -> &str {
        &self.manifest.release
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Opens a file of the entry, without verifying its contents.
    pub(crate) fn open(&self, path: &Path) -> Result<fs::File, Error> {
        self.folder.open(path.strip_prefix(self.folder.path()).unwrap_or(path)).with_path(path)
    }

    /// Reads a file of the entry and verifies it against the manifest.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.open(path)?.read_to_end(&mut bytes).with_path(path)?;
        let name = path.strip_prefix(self.folder.path()).ok().and_then(Path::to_str);
        let expected = name.and_then(|name| self.manifest.files.get(name));
        if expected == Some(&Sum::of_bytes(&bytes)) {
            return Ok(bytes);
        }
        let what = "damaged: size or SHA-256 is not that of its manifest".to_owned();
        Err(Error::Unusable { path: path.to_owned(), what })
    }

    /// Whether every file of the entry has the size and hash that the manifest lists.
    fn is_whole(&self) -> bool {
        let is = |(name, sum): (&String, &Sum)| {
            let found = self.folder.open(Path::new(name));
            found.and_then(|mut file| Sum::of_file(&mut file)).is_ok_and(|found| found == *sum)
        };
        self.manifest.files.iter().all(is)
    }
}

/// One line of `lab cache list`.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// The item, in the form that `lab cache` takes.
    #[serde(serialize_with = "serialize_as_text")]
    pub item: Item,
    /// The Debian suite that the item is from.
    pub suite: String,
    /// The release of the kernel, or the version of systemd; `None` if the entry is damaged.
    pub release: Option<String>,
    /// Name and version of each package that the item consists of, as `name_version`.
    pub packages: Vec<String>,
    /// Space that the entry uses on disk.
    pub size: Bytes,
}

/// Result of comparing a cached kernel with the packages that the suite's signed lists name today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The cached files are exactly those of the packages.
    Same,
    /// These files differ between the entry and the packages, or exist on one side only.
    Differs(Vec<String>),
    /// The suite has newer packages, which are listed; nothing was compared.
    MovedOn(Vec<String>),
}

impl Cache {
    /// Opens the cache folder that the environment names.
    ///
    /// # Errors
    /// If the environment names no folder, if the folder cannot be made, or if another user could
    /// change files in it.
    pub fn open() -> Result<Self, Error> {
        let named = |(name, below): (&'static str, &str)| {
            let value = env::var_os(name).filter(|value| !value.is_empty())?;
            Some((name, Path::new(&value).join(below)))
        };
        let (name, folder) =
            VARIABLES.into_iter().find_map(named).ok_or_else(|| Error::Unusable {
                path: "cache".into(),
                what: "no folder for it: set PAGEWISE_CACHE, XDG_CACHE_HOME or HOME".to_owned(),
            })?;
        Self::open_in(&folder).map_err(|error| error.with_variable(name))
    }

    /// Opens this folder as the cache.
    ///
    /// # Errors
    /// If the folder cannot be made, or if another user could change files in it.
    pub fn open_in(folder: &Path) -> Result<Self, Error> {
        let folder = Folder::make(folder)?;
        for part in ["locks", "runs", "queue", "new"] {
            // Files in these two folders are opened by path, so they must be real folders; only the
            // folders of kernels and userlands may be links.
            folder.subfolder(part)?;
            folder.child(part)?;
        }
        let shelf = |name| folder.subfolder(name).map(Arc::new);
        let (kernels, userlands) = (shelf(KERNELS)?, shelf(USERLANDS)?);
        Ok(Self { folder: Arc::new(folder), kernels, userlands })
    }

    /// Path of the cache folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn folder_of_kind(&self, item: &Item) -> &Folder {
        match item {
            Item::Kernel(_) => &self.kernels,
            Item::Userland(_) => &self.userlands,
        }
    }

    fn entry_path(&self, item: &Item) -> PathBuf {
        self.folder_of_kind(item).path().join(item.folder_name())
    }

    fn lock_of(&self, item: &Item) -> PathBuf {
        self.folder().join("locks").join(item.file_name())
    }

    /// Returns the cached item; fetches it first if it is absent or damaged.
    ///
    /// # Errors
    /// If the item cannot be fetched.
    pub fn get(
        &self,
        item: &Item,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<CacheEntry, Error> {
        match self.find_entry(item, stop)? {
            Some(kept) if kept.manifest.recipe != recipe_version(item) => {
                let noun = item.noun();
                tell(&format!("{item}: the cached {noun} was made otherwise and is fetched again"));
            }
            Some(kept) if kept.is_whole() => return Ok(kept),
            Some(_) => {
                let noun = item.noun();
                tell(&format!("{item}: the cached {noun} is damaged and is fetched again"));
            }
            None => {}
        }
        self.fetch(item, stop, tell)?;
        let removed = "it was removed from the cache while it was fetched";
        self.find_entry(item, stop)?.ok_or_else(|| item.unusable_error(removed.to_owned()))
    }

    /// The cached entry of an item; its files are not verified.
    fn find_entry(&self, item: &Item, stop: &AtomicBool) -> Result<Option<CacheEntry>, Error> {
        let lock = Lock::wait(&self.lock_of(item), Kind::Shared, stop)?;
        let Ok(folder) = self.folder_of_kind(item).child(&item.folder_name()) else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let manifest = folder.open(Path::new(MANIFEST)).and_then(|file| {
            file.take(LARGEST_MANIFEST).read_to_end(&mut bytes)?;
            Ok(serde_json::from_slice(&bytes)?)
        });
        let entry = |manifest| CacheEntry { item: item.clone(), folder, manifest, _lock: lock };
        Ok(manifest.ok().map(entry))
    }

    /// The newest cached cloud kernel whose release `matches`; if there is none, the newest generic
    /// kernel.
    pub(crate) fn find_newest(
        &self,
        matches: impl Fn(&str) -> bool,
    ) -> Result<Option<CacheEntry>, Error> {
        let stop = AtomicBool::new(false);
        let mut found = Vec::new();
        for item in self.items()? {
            let Item::Kernel(kernel) = &item else { continue };
            if let Some(kept) =
                self.find_entry(&item, &stop)?.filter(|kept| matches(kept.release()))
            {
                found.push((kernel.flavour() == Flavour::Cloud, kept));
            }
        }
        let newest = found.into_iter().max_by(|(one_is_cloud, one), (two_is_cloud, two)| {
            (one_is_cloud, release_numbers(one.release()))
                .cmp(&(two_is_cloud, release_numbers(two.release())))
        });
        Ok(newest.map(|(_, kept)| kept))
    }

    /// Fetches the newest version of an item from its suite and replaces the cached one.
    ///
    /// # Errors
    /// If fetching fails; the cached version is kept then.
    pub fn fetch(
        &self,
        item: &Item,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let aside = self.folder().join("new").join(item.file_name());
        let _one_fetches = Lock::wait(&aside.with_extension("lock"), Kind::Alone, stop)?;
        remove_unfinished(&aside)?;
        files::make_folder(&aside)?;
        let built = build(item, &aside, tell);
        // Ctrl-C also reaches apt, whose error message would hide that the user stopped the fetch.
        let built = if stop.load(Ordering::SeqCst) { Err(Error::Stopped) } else { built };
        let placed = built.and_then(|built| {
            let _lock = Lock::wait(&self.lock_of(item), Kind::Alone, stop)?;
            let entry = self.entry_path(item);
            files::remove_folder(&entry)?;
            fs::rename(&built, &entry).with_path(&entry)
        });
        remove_unfinished(&aside)?;
        placed
    }

    /// Fetches a kernel of a suite into another folder, and compares every cached file with the
    /// fetched one. A userland cannot be compared: its disk is made on this machine, and two disks
    /// are never equal byte for byte.
    ///
    /// # Errors
    /// If nothing is cached, or the kernel cannot be fetched.
    pub fn verify(
        &self,
        kernel: &SuiteKernel,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Verdict, Error> {
        let item = Item::Kernel(kernel.clone());
        let aside = self.folder().join("new").join(item.file_name());
        let _one_fetches = Lock::wait(&aside.with_extension("lock"), Kind::Alone, stop)?;
        let kept = self.find_entry(&item, stop)?;
        let kept = kept.ok_or_else(|| item.unusable_error("it is not in the cache".to_owned()))?;
        remove_unfinished(&aside)?;
        files::make_folder(&aside)?;
        let built = build(&item, &aside, tell);
        let built = if stop.load(Ordering::SeqCst) { Err(Error::Stopped) } else { built };
        let verdict = built.and_then(|built| compare(&kept, &built));
        remove_unfinished(&aside)?;
        verdict
    }

    /// Removes the folders of fetches that were killed; returns a line for each.
    pub(crate) fn clean_unfinished(&self) -> Result<Vec<String>, Error> {
        let new = self.folder().join("new");
        let mut lines = Vec::new();
        for entry in fs::read_dir(&new).with_path(&new)?.flatten().filter(is_folder) {
            let aside = entry.path();
            let fetching = aside.with_extension("lock");
            let Some(_lock) = Lock::try_take(&fetching, Kind::Alone)? else { continue };
            remove_unfinished(&aside)?;
            lines.push(format!("removed {}, left by a fetch that was killed", aside.display()));
        }
        Ok(lines)
    }

    /// The items that have an entry in the cache. Folders with other names are left alone.
    fn items(&self) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for name in names_in(self.kernels.path())? {
            items.extend(SuiteKernel::of_folder(&name).map(Item::Kernel));
        }
        for name in names_in(self.userlands.path())? {
            items.extend(is_suite(&name).then_some(Item::Userland(name)));
        }
        items.sort();
        Ok(items)
    }

    /// Lists the cached items.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let stop = AtomicBool::new(false);
        let listed = |item: Item| {
            let kept = self.find_entry(&item, &stop)?.filter(CacheEntry::is_whole);
            let size = Bytes::new(disk_usage(&self.entry_path(&item)));
            let release = kept.as_ref().map(|kept| kept.manifest.release.clone());
            let packages = kept.map_or_else(Vec::new, |kept| kept.manifest.packages);
            Ok(Listed { suite: item.suite().to_owned(), item, release, packages, size })
        };
        self.items()?.into_iter().map(listed).collect()
    }

    /// Removes these items, or all if none is given; waits for guests that use them.
    ///
    /// # Errors
    /// If one of the items cannot be removed.
    pub fn prune(&self, chosen: &[Item], stop: &AtomicBool) -> Result<Vec<Item>, Error> {
        let mut items = self.items()?;
        items.retain(|item| chosen.is_empty() || chosen.contains(item));
        for item in &items {
            let _lock = Lock::wait(&self.lock_of(item), Kind::Alone, stop)?;
            files::remove_folder(&self.entry_path(item))?;
        }
        Ok(items)
    }
}

/// The numbers in a kernel's release, for comparing releases: 7.10 is newer than 7.2.
fn release_numbers(release: &str) -> Vec<u64> {
    let digits = release.split(|letter: char| !letter.is_ascii_digit());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// Compares a cached entry with one that was just built.
fn compare(kept: &CacheEntry, built: &Path) -> Result<Verdict, Error> {
    let path = built.join(MANIFEST);
    let made: Manifest = serde_json::from_slice(&fs::read(&path).with_path(&path)?)
        .map_err(|error| Error::Unusable { path, what: error.to_string() })?;
    if made.packages != kept.manifest.packages {
        return Ok(Verdict::MovedOn(made.packages));
    }
    let mut found = compute_sums(kept.folder.path())?;
    found.remove(MANIFEST);
    let names: BTreeSet<&String> = found.keys().chain(made.files.keys()).collect();
    let differs = names.into_iter().filter(|name| found.get(*name) != made.files.get(*name));
    let differs: Vec<String> = differs.cloned().collect();
    Ok(if differs.is_empty() { Verdict::Same } else { Verdict::Differs(differs) })
}

fn serialize_as_text<S: Serializer>(item: &Item, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(item)
}

fn names_in(folder: &Path) -> Result<Vec<String>, Error> {
    let entries = fs::read_dir(folder).with_path(folder)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

fn is_folder(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Space that a folder uses on disk, in bytes of allocated blocks: less than the lengths of the
/// files if one has holes.
fn disk_usage(folder: &Path) -> u64 {
    let files = files::files_below(folder).unwrap_or_default();
    files.iter().filter_map(|path| path.metadata().ok()).map(|data| data.blocks() * 512).sum()
}

/// Removes the folder of an unfinished fetch, and apt's folder that it refers to.
fn remove_unfinished(aside: &Path) -> Result<(), Error> {
    apt::discard(aside)?;
    files::remove_folder(aside)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn item() -> Item {
        "test".parse().unwrap()
    }

    /// A cache with one entry that looks like a fetched one.
    fn kept_once() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        keep(&cache, &item(), "1.2.3");
        (folder, cache)
    }

    fn keep(cache: &Cache, item: &Item, release: &str) {
        let entry = cache.entry_path(item);
        fs::create_dir_all(entry.join("modules")).unwrap();
        fs::write(entry.join("image"), b"kernel").unwrap();
        fs::write(entry.join("modules/a.ko"), b"module").unwrap();
        let files = compute_sums(&entry).unwrap();
        let (suite, release) = (item.suite().to_owned(), release.to_owned());
        let (packages, archives) = (Vec::new(), BTreeMap::new());
        let manifest = Manifest { suite, release, recipe: 0, packages, archives, files };
        fs::write(entry.join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
    }

    #[test]
    fn what_was_kept_is_read_back() {
        let (_folder, cache) = kept_once();
        let kept = cache.find_newest(|release| release == "1.2.3").unwrap().unwrap();
        assert!(kept.is_whole());
        assert_eq!(kept.read(&kept.path("image")).unwrap(), b"kernel");
        assert_eq!(cache.list().unwrap()[0].release.as_deref(), Some("1.2.3"));
        assert!(cache.find_newest(|release| release == "9").unwrap().is_none());
    }

    #[test]
    fn damage_is_noticed_whatever_it_is() {
        for damage in [&b"kernal"[..], b"kernel and more", b""] {
            let (_folder, cache) = kept_once();
            fs::write(cache.entry_path(&item()).join("image"), damage).unwrap();
            let kept = cache.find_newest(|_| true).unwrap().unwrap();
            assert!(!kept.is_whole());
            assert!(kept.read(&kept.path("image")).unwrap_err().to_string().contains("damaged"));
            assert!(cache.list().unwrap()[0].release.is_none());
        }
    }

    /// `compare` reads the files instead of trusting the manifest, because somebody who changes a
    /// file can also change the manifest beside it.
    #[test]
    fn a_kept_entry_is_compared_with_one_made_of_the_packages() {
        let (_one, cache) = kept_once();
        let (_other, made) = kept_once();
        let (entry, made) = (cache.entry_path(&item()), made.entry_path(&item()));
        let verdict = || compare(&cache.find_newest(|_| true).unwrap().unwrap(), &made).unwrap();
        assert_eq!(verdict(), Verdict::Same);
        files::write(&entry.join("image"), b"kernal", 0o644).unwrap();
        files::write(&entry.join("busybox"), b"more", 0o755).unwrap();
        fs::remove_file(entry.join("modules/a.ko")).unwrap();
        let mut manifest: Manifest =
            serde_json::from_slice(&fs::read(entry.join(MANIFEST)).unwrap()).unwrap();
        fs::remove_file(entry.join(MANIFEST)).unwrap();
        manifest.files = compute_sums(&entry).unwrap();
        let write = |manifest: &Manifest| {
            files::write(&entry.join(MANIFEST), &serde_json::to_vec(manifest).unwrap(), 0o600)
                .unwrap();
        };
        write(&manifest);
        assert!(cache.find_newest(|_| true).unwrap().unwrap().is_whole(), "its manifest fits");
        let files = ["busybox", "image", "modules/a.ko"].map(str::to_owned);
        assert_eq!(verdict(), Verdict::Differs(files.to_vec()));
        manifest.packages = vec!["linux-image-1_1".to_owned()];
        write(&manifest);
        assert_eq!(verdict(), Verdict::MovedOn(Vec::new()));
    }

    /// If both flavours of a suite are cached, a version number means the cloud kernel.
    #[test]
    fn the_newest_of_a_version_is_the_newest_cloud_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_in(folder.path()).unwrap();
        let kernels = [
            ("bookworm", "6.1.0-50-cloud-amd64"),
            ("bookworm/generic", "6.1.0-51-amd64"),
            ("trixie/generic", "6.12.8-amd64"),
            ("trixie", "6.12.7-cloud-amd64"),
            ("trixie-backports", "6.12.6-cloud-amd64"),
            ("testing", "6.19.9-cloud-amd64"),
            ("sid", "6.19.10-cloud-amd64"),
            ("sid/generic", "7.2.1-amd64"),
        ];
        for (item, release) in kernels {
            keep(&cache, &item.parse().unwrap(), release);
        }
        let newest = |begin: &str| {
            let found = cache.find_newest(|release| release.starts_with(begin)).unwrap();
            found.map(|kept| kept.item().to_string())
        };
        assert_eq!(newest("6.1.").as_deref(), Some("bookworm"));
        assert_eq!(newest("6.12.").as_deref(), Some("trixie"));
        assert_eq!(newest("6.19.").as_deref(), Some("sid"), "10 is more than 9");
        assert_eq!(newest("7.2.").as_deref(), Some("sid/generic"), "there is no other");
        assert_eq!(newest("6.12.8").as_deref(), Some("trixie/generic"), "no other has it");
        assert_eq!(newest("8."), None);
        let listed: Vec<String> =
            cache.list().unwrap().iter().map(|one| one.item.to_string()).collect();
        let expected = [
            "bookworm",
            "bookworm/generic",
            "sid",
            "sid/generic",
            "testing",
            "trixie",
            "trixie/generic",
            "trixie-backports",
        ];
        assert_eq!(listed, expected);
        let go_on = AtomicBool::new(false);
        let generic: Item = "trixie/generic".parse().unwrap();
        assert_eq!(cache.prune(std::slice::from_ref(&generic), &go_on).unwrap(), [generic]);
        assert_eq!(newest("6.12.").as_deref(), Some("trixie"));
        assert_eq!(newest("6.12.8"), None);
    }

    #[test]
    fn a_folder_that_is_no_entry_is_left_alone() {
        let (folder, cache) = kept_once();
        for name in
            ["kernels/systemd", "kernels/systemd+generic", "kernels/test+big", "userlands/a+b"]
        {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        assert_eq!(cache.prune(&[], &AtomicBool::new(false)).unwrap(), [item()]);
        assert!(folder.path().join("kernels/systemd+generic").exists());
    }

    #[test]
    fn userlands_stand_beside_kernels_of_the_same_suite() {
        let (_folder, cache) = kept_once();
        let userland = Item::Userland("test".to_owned());
        fs::create_dir_all(cache.entry_path(&userland)).unwrap();
        fs::copy(
            cache.entry_path(&item()).join("manifest.json"),
            cache.entry_path(&userland).join("manifest.json"),
        )
        .unwrap();
        let listed = cache.list().unwrap();
        assert_eq!(listed.iter().map(|one| &one.item).collect::<Vec<_>>(), [&item(), &userland]);
        // The manifest of the userland names files that do not exist.
        assert!(listed[0].release.is_some() && listed[1].release.is_none());
        let go_on = AtomicBool::new(false);
        assert_eq!(cache.prune(std::slice::from_ref(&userland), &go_on).unwrap(), [userland]);
        assert!(cache.entry_path(&item()).exists());
    }

    #[test]
    fn prune_takes_what_is_named_and_waits_for_users() {
        let (_folder, cache) = kept_once();
        let go_on = AtomicBool::new(false);
        assert!(cache.prune(&["other".parse().unwrap()], &go_on).unwrap().is_empty());
        let used = cache.find_newest(|_| true).unwrap();
        let give_up = AtomicBool::new(true);
        assert!(matches!(cache.prune(&[], &give_up), Err(Error::Stopped)));
        drop(used);
        assert_eq!(cache.prune(&[], &go_on).unwrap(), [item()]);
        assert!(cache.list().unwrap().is_empty());
    }
}
