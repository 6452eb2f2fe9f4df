// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes filled anonymous memory, or a file that is on disk and not in the page cache, from a size
//! and a seed.
//!
//! A piece of [`PIECE`] bytes is generated once and written repeatedly: generating text takes far
//! longer than writing it, and the workload's own memory stays small compared with what it
//! measures. A number in each page makes pages of different pieces distinct, for kernels that merge
//! equal pages. Same-filled pages, which the kernel does not compress, get no number.
//!
//! A file is made in the folder that TMPDIR names, otherwise in one on a disk (see
//! `pagewise_guest::files`). Pages of a file in memory (tmpfs, a guest's initramfs) cannot be
//! dropped and read again, so such a folder is refused; this is tested by the effect, not by the
//! name. The file is unnamed, so that nothing is left of it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pagewise_guest::files::find_folder_on_disk;
use pagewise_mappings::{Advice, Region};

use super::error::{Error, ErrorContext};
use super::progress::{Progress, share};
use crate::contents::Mix;

/// Number of bytes that are generated at a time.
const PIECE: usize = 4 << 20;
/// Size of the number in each page, in bytes.
const WORD: usize = size_of::<usize>();

/// Allocates and fills memory, without huge pages.
pub(super) fn map_filled(
    pages: usize,
    shared: bool,
    contents: &Mix,
    seed: u64,
    progress: &mut Progress<'_>,
) -> Result<Region, Error> {
    let mut region =
        Region::map_memory(pages, shared).about(|| format!("{pages} pages of memory"))?;
    region.advise(Advice::Small).about(|| "MADV_NOHUGEPAGE".to_owned())?;
    let page = rustix::param::page_size();
    let piece = PIECE / page;
    let mut made = contents.pages(piece.min(pages), page, seed);
    for (number, start) in (0..pages).step_by(piece).enumerate() {
        progress("filling memory", share(start, pages));
        made.truncate(piece.min(pages - start) * page);
        for (at, bytes) in made.chunks_exact_mut(page).enumerate() {
            if !is_one_word(bytes) {
                bytes[..WORD].copy_from_slice(&number.to_ne_bytes());
            }
            region.fill(start + at, bytes);
        }
    }
    Ok(region)
}

/// Whether a page is filled with one repeated word.
fn is_one_word(bytes: &[u8]) -> bool {
    bytes[..bytes.len() - WORD] == bytes[WORD..]
}

/// A file on disk, and its mapping.
#[derive(Debug)]
pub(super) struct MappedStore {
    pub(super) file: File,
    pub(super) map: Region,
}

impl MappedStore {
    pub(super) fn new(pages: usize, seed: u64, progress: &mut Progress<'_>) -> Result<Self, Error> {
        let folder = folder();
        let file = write_file(&folder, pages, seed, progress)
            .about(|| format!("a file of {pages} pages in {}", folder.display()))?;
        let map = Region::map_file(&file, pages).about(|| "mapping it".to_owned())?;
        let stored = Self { file, map };
        stored.drop_from_memory(&folder, pages)?;
        Ok(stored)
    }

    fn drop_from_memory(&self, folder: &Path, pages: usize) -> Result<(), Error> {
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed)
            .about(|| "POSIX_FADV_DONTNEED".to_owned())?;
        let left = self.map.count_resident().about(|| "mincore".to_owned())?;
        if left * 2 <= pages {
            return Ok(());
        }
        Err(Error::Unsound(format!(
            "{}: expected a folder on a disk, found {left} of {pages} pages of a file still in memory \
             when they were dropped: let TMPDIR name a folder that is not tmpfs",
            folder.display()
        )))
    }
}

/// Path of the folder in which files are made.
fn folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(find_folder_on_disk).unwrap_or_else(|| "/var/tmp".into())
}

fn write_file(
    folder: &Path,
    pages: usize,
    seed: u64,
    progress: &mut Progress<'_>,
) -> io::Result<File> {
    let page = rustix::param::page_size();
    let piece = PIECE / page;
    let text: Mix = "text:100".parse().map_err(io::Error::other)?;
    let mut made = text.pages(piece.min(pages), page, seed);
    let mut file = tempfile::tempfile_in(folder)?;
    for start in (0..pages).step_by(piece) {
        progress("writing files", share(start, pages));
        made.truncate(piece.min(pages - start) * page);
        for (at, bytes) in made.chunks_exact_mut(page).enumerate() {
            bytes[..WORD].copy_from_slice(&(start + at).to_ne_bytes());
        }
        file.write_all(&made)?;
    }
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_repeats_with_the_seed_and_differs_from_piece_to_piece() {
        let (page, piece) = (rustix::param::page_size(), PIECE / rustix::param::page_size());
        let mix: Mix = "text:50,random:50".parse().unwrap();
        let first_of_each = |seed| {
            let region = map_filled(piece + 2, false, &mix, seed, &mut |_, _| {}).unwrap();
            [0, piece, piece + 1].map(|at| {
                let mut bytes = vec![0; page];
                region.copy(at, &mut bytes);
                bytes
            })
        };
        let [start, next, last] = first_of_each(3);
        assert!(start != next && next != last && last.iter().any(|byte| *byte != 0));
        assert_eq!([start.clone(), next, last], first_of_each(3));
        assert_ne!(start, first_of_each(4)[0]);
    }

    /// The shares of zero-filled pages and of copies are those of the mix.
    #[test]
    fn a_number_in_a_page_changes_no_share() {
        let (page, piece) = (rustix::param::page_size(), PIECE / rustix::param::page_size());
        let mix: Mix = "zero:30,text:70,duplicates:20".parse().unwrap();
        let region = map_filled(3 * piece, false, &mix, 5, &mut |_, _| {}).unwrap();
        let copied = |at: usize| {
            let mut bytes = vec![0; page];
            region.copy(at, &mut bytes);
            bytes
        };
        let kinds = |number: usize| {
            let all: Vec<Vec<u8>> = (number * piece..(number + 1) * piece).map(copied).collect();
            let zeros = all.iter().filter(|page| page.iter().all(|byte| *byte == 0)).count();
            let different = all.into_iter().collect::<std::collections::HashSet<_>>();
            (zeros, different)
        };
        let [first, second, last] = [0, 1, 2].map(kinds);
        assert!(first.0 > piece / 5 && first.1.len() < piece * 3 / 4);
        for other in [&second, &last] {
            assert_eq!((other.0, other.1.len()), (first.0, first.1.len()));
            assert_eq!(other.1.intersection(&first.1).count(), 1, "zeros alone are in both");
        }
    }

    #[test]
    fn a_file_is_on_disk_and_not_in_memory() {
        let stored = MappedStore::new(1030, 1, &mut |_, _| {}).unwrap();
        assert!(stored.map.count_resident().unwrap() < 100);
        let number = |page| {
            let mut bytes = vec![0; rustix::param::page_size()];
            stored.map.copy(page, &mut bytes);
            usize::from_ne_bytes(*bytes.first_chunk().unwrap())
        };
        assert_eq!([0, 1024, 1029].map(number), [0, 1024, 1029]);
    }

    #[test]
    fn a_folder_in_memory_is_refused() {
        let refused = |folder: &str| {
            let file = write_file(folder.as_ref(), 64, 1, &mut |_, _| {}).unwrap();
            let map = Region::map_file(&file, 64).unwrap();
            MappedStore { file, map }.drop_from_memory(folder.as_ref(), 64).unwrap_err().to_string()
        };
        assert!(refused("/dev/shm").contains("found 64 of 64 pages"));
    }
}
