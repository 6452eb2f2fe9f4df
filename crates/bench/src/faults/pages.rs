// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills the memory to be swapped from a file of pages, and checks afterwards that the memory has
//! the same contents.

use std::fs::File;
use std::os::unix::fs::FileExt;

use pagewise_mappings::Region;

use super::failure::{ErrorContext, Failure};

/// The pages to fill memory with, without same-filled ones: newer kernels do not send zero-filled
/// pages to the device, and zram does not compress other same-filled pages.
#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    count: u64,
    page: usize,
}

impl Pages {
    pub(super) fn new(file: File) -> Result<Self, Failure> {
        let page = rustix::param::page_size();
        let length = file.metadata().context("the pages")?.len();
        Ok(Self { file, count: length / u64::try_from(page).unwrap_or(u64::MAX), page })
    }

    fn read(&self, at: u64, to: &mut [u8]) -> Result<(), Failure> {
        let place = at * u64::try_from(self.page).unwrap_or(0);
        self.file.read_exact_at(to, place).context("the pages")
    }

    /// Passes this many pages to `show`, and repeats pages if the file has too few; returns the
    /// position of each page in the file.
    pub(super) fn pass_pages(
        &self,
        requested: usize,
        mut show: impl FnMut(usize, &[u8]) -> Result<(), Failure>,
    ) -> Result<Vec<u64>, Failure> {
        let (mut origin, mut page, mut unused) =
            (Vec::with_capacity(requested), vec![0; self.page], 0);
        for at in (0..self.count).cycle() {
            if origin.len() == requested {
                break;
            }
            self.read(at, &mut page)?;
            if is_filled_with_one_word(&page) {
                unused += 1;
                if unused > self.count {
                    break;
                }
                continue;
            }
            unused = 0;
            show(origin.len(), &page)?;
            origin.push(at);
        }
        if origin.len() == requested { Ok(origin) } else { Err(Failure::SameFilled) }
    }

    /// Number of the region's pages with other contents than those that they were filled with.
    pub(super) fn count_wrong(
        &self,
        region: &Region,
        order: &[usize],
        origin: &[u64],
    ) -> Result<u64, Failure> {
        let (mut wanted, mut found) = (vec![0; self.page], vec![0; self.page]);
        let mut wrong = 0;
        for &at in order {
            self.read(origin[at], &mut wanted)?;
            region.copy(at, &mut found);
            wrong += u64::from(wanted != found);
        }
        Ok(wrong)
    }
}

fn is_filled_with_one_word(page: &[u8]) -> bool {
    page.first_chunk::<8>().is_some_and(|word| page.chunks_exact(8).all(|other| other == word))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn pages(bytes: &[u8]) -> Pages {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Pages::new(file).unwrap()
    }

    fn page(number: u8) -> Vec<u8> {
        let size = u8::try_from(rustix::param::page_size() / 256).unwrap();
        (0..size).flat_map(|_| (0..=255).map(|byte: u8| byte.wrapping_mul(number))).collect()
    }

    #[test]
    fn same_filled_pages_are_left_out_and_the_others_repeat() {
        let same = vec![9; rustix::param::page_size()];
        let source = pages(&[same.clone(), page(3), page(5), same, vec![1; 100]].concat());
        let mut shown = Vec::new();
        let origin = source.pass_pages(5, |at, bytes| {
            shown.push((at, bytes.to_vec()));
            Ok(())
        });
        assert_eq!(origin.unwrap(), [1, 2, 1, 2, 1]);
        let requested = [3, 5, 3, 5, 3].map(page);
        assert!(shown.into_iter().eq(requested.into_iter().enumerate()));
    }

    #[test]
    fn pages_of_nothing_are_refused() {
        let nothing = vec![0; 3 * rustix::param::page_size()];
        for bytes in [&nothing[..], &nothing[..100], &[]] {
            let refused = pages(bytes).pass_pages(2, |_, _| Ok(())).unwrap_err();
            assert!(matches!(refused, Failure::SameFilled), "{refused}");
        }
    }

    #[test]
    fn a_page_that_changed_is_wrong() {
        let source = pages(&[page(3), page(5), page(7)].concat());
        let mut region = Region::map_memory(3, false).unwrap();
        let filled = source.pass_pages(3, |at, page| {
            region.fill(at, page);
            Ok(())
        });
        let origin = filled.unwrap();
        assert_eq!(source.count_wrong(&region, &[2, 0, 1], &origin).unwrap(), 0);
        region.fill(1, &page(9));
        assert_eq!(source.count_wrong(&region, &[2, 0, 1], &origin).unwrap(), 1);
        assert_eq!(source.count_wrong(&region, &[2, 0], &origin).unwrap(), 0);
    }
}
