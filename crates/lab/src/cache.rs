// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One folder → the kernels that were fetched, each whole or not there.
//!
//! An entry is built aside and renamed into its place. Its manifest names every file with size and
//! SHA-256; a file is held against it each time it is read. An entry with a damaged file is fetched
//! again the next time it is wanted. Readers hold a lock that prune respects.
//!
//! `$PAGEWISE_CACHE`, `$XDG_CACHE_HOME/pagewise` or `~/.cache/pagewise`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use pagewise_model::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::debian;
use crate::error::{At, Error};
use crate::kernel::{self, Wanted};
use crate::lock::{Kind, Lock};

/// The folder.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

/// What an entry is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The suite.
    pub suite: String,
    /// As `uname -r` prints it.
    pub release: String,
    /// `name_version` of each package.
    pub packages: Vec<String>,
    /// Every file below the entry.
    pub files: BTreeMap<String, Sum>,
}

/// A file's size and hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Bytes.
    pub size: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl Sum {
    fn of(bytes: &[u8]) -> Self {
        let hash = Sha256::digest(bytes);
        let sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { size: bytes.len() as u64, sha256 }
    }
}

/// An entry in use.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    manifest: Manifest,
    _lock: Lock,
}

impl Kept {
    pub(crate) fn name(&self) -> &str {
        &self.manifest.suite
    }

    pub(crate) fn release(&self) -> &str {
        &self.manifest.release
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.join(below)
    }

    /// A file of the entry, as it was when it was fetched.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let bytes = fs::read(path).at(path)?;
        let name = path.strip_prefix(&self.folder).ok().and_then(Path::to_str);
        let expected = name.and_then(|name| self.manifest.files.get(name));
        if expected == Some(&Sum::of(&bytes)) {
            return Ok(bytes);
        }
        let what = "damaged: size or SHA-256 is not that of its manifest".to_owned();
        Err(Error::Unusable { path: path.to_owned(), what })
    }

    /// Whether every file is as it was.
    fn is_whole(&self) -> bool {
        self.manifest.files.keys().all(|name| self.read(&self.folder.join(name)).is_ok())
    }
}

/// One line of `lab cache list`.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// The suite.
    pub suite: String,
    /// The kernel, where the entry is whole.
    pub release: Option<String>,
    /// `name_version` of each package.
    pub packages: Vec<String>,
    /// On disk.
    pub size: Bytes,
}

impl Cache {
    /// The folder that the environment names.
    ///
    /// # Errors
    /// Where it names none, or it cannot be made.
    pub fn open() -> Result<Self, Error> {
        let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = named("PAGEWISE_CACHE")
            .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("pagewise")))
            .or_else(|| named("HOME").map(|folder| folder.join(".cache/pagewise")));
        let folder = folder.ok_or_else(|| Error::Unusable {
            path: "cache".into(),
            what: "no folder for it: set PAGEWISE_CACHE, XDG_CACHE_HOME or HOME".to_owned(),
        })?;
        Self::at(&folder)
    }

    /// This folder.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn at(folder: &Path) -> Result<Self, Error> {
        for part in ["kernels", "locks", "runs", "new"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).at(&part)?;
        }
        let folder = folder.canonicalize().at(folder)?;
        Ok(Self { folder })
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn entry(&self, suite: &str) -> PathBuf {
        self.folder.join("kernels").join(suite)
    }

    fn lock_of(&self, suite: &str) -> PathBuf {
        self.folder.join("locks").join(suite)
    }

    /// The kernel of a suite: as kept, or fetched where it is not here or not whole.
    ///
    /// # Errors
    /// Where it cannot be fetched.
    pub fn suite(
        &self,
        suite: &str,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Kept, Error> {
        match self.kept(suite, stop)? {
            Some(kept) if kept.is_whole() => return Ok(kept),
            Some(_) => tell(&format!("{suite}: the cached kernel is damaged and is fetched again")),
            None => {}
        }
        self.fetch(suite, stop, tell)?;
        let absent = || Error::NoKernel {
            wanted: suite.to_owned(),
            why: "it was removed from the cache while it was fetched".to_owned(),
        };
        self.kept(suite, stop)?.ok_or_else(absent)
    }

    /// What is kept of a suite, whole or not.
    fn kept(&self, suite: &str, stop: &AtomicBool) -> Result<Option<Kept>, Error> {
        let lock = Lock::wait(&self.lock_of(suite), Kind::Shared, stop)?;
        let folder = self.entry(suite);
        let manifest = fs::read(folder.join("manifest.json")).ok();
        let manifest = manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(manifest.map(|manifest| Kept { folder, manifest, _lock: lock }))
    }

    /// The newest kept kernel whose release pleases.
    pub(crate) fn newest(&self, wanted: impl Fn(&str) -> bool) -> Result<Option<Kept>, Error> {
        let stop = AtomicBool::new(false);
        let mut found = Vec::new();
        for suite in self.suites()? {
            found.extend(self.kept(&suite, &stop)?.filter(|kept| wanted(kept.release())));
        }
        found.sort_by(|one, two| one.release().cmp(two.release()));
        Ok(found.pop())
    }

    /// Fetches the newest kernel of a suite, in place of what is kept.
    ///
    /// # Errors
    /// Where that is not possible; what was kept is still there then.
    pub fn fetch(
        &self,
        suite: &str,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        // It becomes the name of a folder and part of apt's sources.
        if !matches!(suite.parse(), Ok(Wanted::Suite(_))) {
            let why = "expected the name of a suite, in small letters".to_owned();
            return Err(Error::NoKernel { wanted: suite.to_owned(), why });
        }
        let aside = self.folder.join("new").join(suite);
        let _one_fetches = Lock::wait(&aside.with_extension("lock"), Kind::Alone, stop)?;
        remove(&aside)?;
        fs::create_dir_all(&aside).at(&aside)?;
        let built = build(suite, &aside, tell);
        // Ctrl-C reaches apt too, and then its complaint is not the reason.
        let built = if stop.load(Ordering::SeqCst) { Err(Error::Stopped) } else { built };
        let placed = built.and_then(|built| {
            let _lock = Lock::wait(&self.lock_of(suite), Kind::Alone, stop)?;
            let entry = self.entry(suite);
            remove(&entry)?;
            fs::rename(&built, &entry).at(&entry)
        });
        remove(&aside)?;
        placed
    }

    /// Removes what fetches began and did not end; a line for each.
    pub(crate) fn clean_unfinished(&self) -> Result<Vec<String>, Error> {
        let new = self.folder.join("new");
        let mut told = Vec::new();
        for entry in fs::read_dir(&new).at(&new)?.flatten().filter(is_folder) {
            let aside = entry.path();
            let fetching = aside.with_extension("lock");
            let Some(_lock) = Lock::attempt(&fetching, Kind::Alone)? else { continue };
            remove(&aside)?;
            told.push(format!("removed {}, left by a fetch that was killed", aside.display()));
        }
        Ok(told)
    }

    fn suites(&self) -> Result<Vec<String>, Error> {
        let folder = self.folder.join("kernels");
        let entries = fs::read_dir(&folder).at(&folder)?.flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// What is kept.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let stop = AtomicBool::new(false);
        let listed = |suite: String| {
            let kept = self.kept(&suite, &stop)?.filter(Kept::is_whole);
            let size = Bytes::new(size(&self.entry(&suite)));
            let release = kept.as_ref().map(|kept| kept.manifest.release.clone());
            let packages = kept.map_or_else(Vec::new, |kept| kept.manifest.packages);
            Ok(Listed { suite, release, packages, size })
        };
        self.suites()?.into_iter().map(listed).collect()
    }

    /// Removes what is kept of these suites, or of all; waits for guests that use them.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn prune(&self, suites: &[String], stop: &AtomicBool) -> Result<Vec<String>, Error> {
        let mut names = self.suites()?;
        names.retain(|name| suites.is_empty() || suites.contains(name));
        for name in &names {
            let _lock = Lock::wait(&self.lock_of(name), Kind::Alone, stop)?;
            remove(&self.entry(name))?;
        }
        Ok(names)
    }
}

/// Fetches and arranges an entry aside; says where it is.
fn build(suite: &str, aside: &Path, tell: &mut dyn FnMut(&str)) -> Result<PathBuf, Error> {
    let packages = debian::fetch(suite, aside, tell)?;
    let places = debian::places(&aside.join("root")).ok_or_else(|| Error::NoKernel {
        wanted: suite.to_owned(),
        why: format!("its packages hold no image, modules or busybox: {}", packages.join(", ")),
    })?;
    let image = fs::read(&places.image).at(&places.image)?;
    let release = kernel::release(&image).ok_or_else(|| Error::Unusable {
        path: places.image.clone(),
        what: "expected a Linux image for x86".to_owned(),
    })?;
    let entry = aside.join("entry");
    fs::create_dir_all(&entry).at(&entry)?;
    let image = kernel::plain(&image).unwrap_or(image);
    fs::write(entry.join("image"), image).at(&entry)?;
    fs::rename(&places.busybox, entry.join("busybox")).at(&places.busybox)?;
    fs::rename(&places.modules, entry.join("modules")).at(&places.modules)?;
    let manifest = Manifest { suite: suite.to_owned(), release, packages, files: sums(&entry)? };
    let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
    fs::write(entry.join("manifest.json"), text).at(&entry)?;
    Ok(entry)
}

fn sums(entry: &Path) -> Result<BTreeMap<String, Sum>, Error> {
    let mut sums = BTreeMap::new();
    for path in files(entry)? {
        let name = path.strip_prefix(entry).unwrap_or(&path).to_string_lossy().into_owned();
        sums.insert(name, Sum::of(&fs::read(&path).at(&path)?));
    }
    Ok(sums)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).at(&folder)? {
            let entry = entry.at(&folder)?;
            let kind = entry.file_type().at(&folder)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn is_folder(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

fn size(folder: &Path) -> u64 {
    let files = files(folder).unwrap_or_default();
    files.iter().filter_map(|path| path.metadata().ok()).map(|data| data.len()).sum()
}

/// Removes a folder that may not be there.
pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at(folder),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with an entry that looks fetched.
    fn kept_once() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let entry = cache.entry("test");
        fs::create_dir_all(entry.join("modules")).unwrap();
        fs::write(entry.join("image"), b"kernel").unwrap();
        fs::write(entry.join("modules/a.ko"), b"module").unwrap();
        let files = sums(&entry).unwrap();
        let (suite, release) = ("test".to_owned(), "1.2.3".to_owned());
        let manifest = Manifest { suite, release, packages: Vec::new(), files };
        fs::write(entry.join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
        (folder, cache)
    }

    #[test]
    fn what_was_kept_is_read_back() {
        let (_folder, cache) = kept_once();
        let kept = cache.newest(|release| release == "1.2.3").unwrap().unwrap();
        assert!(kept.is_whole());
        assert_eq!(kept.read(&kept.path("image")).unwrap(), b"kernel");
        assert_eq!(cache.list().unwrap()[0].release.as_deref(), Some("1.2.3"));
        assert!(cache.newest(|release| release == "9").unwrap().is_none());
    }

    #[test]
    fn damage_is_noticed_whatever_it_is() {
        for damage in [&b"kernal"[..], b"kernel and more", b""] {
            let (_folder, cache) = kept_once();
            fs::write(cache.entry("test").join("image"), damage).unwrap();
            let kept = cache.newest(|_| true).unwrap().unwrap();
            assert!(!kept.is_whole());
            assert!(kept.read(&kept.path("image")).unwrap_err().to_string().contains("damaged"));
            assert!(cache.list().unwrap()[0].release.is_none());
        }
    }

    #[test]
    fn only_a_suite_becomes_a_folder() {
        let (folder, cache) = kept_once();
        for bad in ["../x", "", "a b", "host", "6.1"] {
            let told = cache.fetch(bad, &AtomicBool::new(false), &mut |_| panic!("fetched"));
            assert!(matches!(told, Err(Error::NoKernel { .. })), "{bad}");
        }
        assert!(!folder.path().join("x").exists());
    }

    #[test]
    fn prune_takes_what_is_named_and_waits_for_users() {
        let (_folder, cache) = kept_once();
        let go_on = AtomicBool::new(false);
        assert!(cache.prune(&["other".to_owned()], &go_on).unwrap().is_empty());
        let used = cache.newest(|_| true).unwrap();
        let give_up = AtomicBool::new(true);
        assert!(matches!(cache.prune(&[], &give_up), Err(Error::Stopped)));
        drop(used);
        assert_eq!(cache.prune(&[], &go_on).unwrap(), ["test"]);
        assert!(cache.list().unwrap().is_empty());
    }
}
