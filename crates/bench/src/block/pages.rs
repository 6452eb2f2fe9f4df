// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that somebody drew → an image in memory that direct I/O can write from.
//!
//! Direct I/O wants addresses that are a multiple of the block. An image may stand for a larger span by
//! repeating itself.

use std::io::Read;

use pagewise_model::Bytes;

use super::error::Error;

/// Bytes at an address that is a multiple of a page: no device wants more. They may be somebody's, so
/// they are kept out of dumps.
pub(super) use pagewise_sandbox::Buffer as Aligned;

/// Whole pages, the same for everything that is measured.
pub struct Pages {
    image: Aligned,
    page: usize,
    /// Bytes that were pushed.
    len: usize,
    left_over: u64,
}

impl std::fmt::Debug for Pages {
    /// Never their contents.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pages({} of {} bytes)", self.count(), self.page)
    }
}

impl Pages {
    /// Room for `most` pages of this host.
    #[must_use]
    pub fn with_room(most: usize) -> Self {
        let page = rustix::param::page_size();
        Self { image: Aligned::zeroed(most * page), page, len: 0, left_over: 0 }
    }

    /// Adds a page; answers `false` where there is no room or it is not one page long.
    pub fn push(&mut self, page: &[u8]) -> bool {
        let end = self.len + self.page;
        if page.len() != self.page || end > self.image.get().len() {
            return false;
        }
        self.image.get_mut()[self.len..end].copy_from_slice(page);
        self.len = end;
        true
    }

    /// The first pages of a file, at most `most`. What does not fill a page is
    /// [`Pages::left_over`].
    ///
    /// # Errors
    /// Where it cannot be read or has not one page.
    pub fn read(from: &mut dyn Read, most: usize) -> Result<Self, Error> {
        let mut pages = Self::with_room(most);
        let mut read = 0;
        let image = pages.image.get_mut();
        while read < image.len() {
            match from.read(&mut image[read..]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Input { source }),
            }
        }
        pages.left_over = (read % pages.page) as u64;
        pages.len = read - read % pages.page;
        match pages.len {
            0 => Err(Error::NoPages),
            _ => Ok(pages),
        }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.len / self.page
    }

    /// Bytes of one.
    #[must_use]
    pub fn page_size(&self) -> Bytes {
        Bytes::new(self.page as u64)
    }

    /// All of them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.image.get()[..self.len]
    }

    /// Bytes at the end of a file that were no whole page, and were not taken.
    #[must_use]
    pub fn left_over(&self) -> u64 {
        self.left_over
    }

    /// What belongs at `offset` of a span that may be longer: it begins anew behind the last page.
    pub(super) fn slice_at(&self, offset: u64, length: usize) -> &[u8] {
        let start = usize::try_from(offset % self.len as u64).unwrap_or(0);
        &self.bytes()[start..start + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_lies_where_direct_io_can_reach_it() {
        let mut pages = Pages::with_room(3);
        let page = pages.page;
        assert!(pages.push(&vec![1; page]) && pages.push(&vec![2; page]));
        assert!(!pages.push(&vec![3; page - 1]));
        assert!(pages.push(&vec![3; page]) && !pages.push(&vec![4; page]));
        assert_eq!(pages.bytes().as_ptr().align_offset(4096), 0);
        assert_eq!(pages.count(), 3);
        assert_eq!(pages.slice_at(4 * page as u64, page)[0], 2);
    }

    #[test]
    fn a_file_that_ends_in_the_middle_of_a_page_gives_its_whole_pages() {
        let page = rustix::param::page_size();
        let file = vec![7; 2 * page + 5];
        let pages = Pages::read(&mut file.as_slice(), 9).unwrap();
        assert_eq!((pages.count(), pages.left_over()), (2, 5));
        let pages = Pages::read(&mut file.as_slice(), 1).unwrap();
        assert_eq!((pages.count(), pages.left_over()), (1, 0));
        assert!(matches!(Pages::read(&mut &file[..5], 9), Err(Error::NoPages)));
    }

    #[test]
    fn what_is_printed_of_pages_is_not_what_is_in_them() {
        let mut pages = Pages::with_room(1);
        pages.push(&vec![b's'; pages.page]);
        assert!(!format!("{pages:?}").contains("ss"));
    }
}
