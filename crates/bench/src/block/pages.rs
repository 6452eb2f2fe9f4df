// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that the caller has read, as an image in memory that can be written with direct I/O.
//!
//! Direct I/O needs addresses that are multiples of the block size. If a span is longer than the
//! image, the image is repeated.

use std::io::Read;

use pagewise_model::Bytes;

use super::error::Error;

/// A page-aligned buffer; that alignment is enough for direct I/O on every device. The contents may
/// be private data of users, so they are excluded from core dumps.
pub(super) use pagewise_sandbox::Buffer as Aligned;

/// Complete pages to fill stores with, the same for all contestants.
pub struct Pages {
    image: Aligned,
    page: usize,
    /// Number of bytes that were added to the image.
    len: usize,
    left_over: u64,
}

impl std::fmt::Debug for Pages {
    /// Shows only sizes: the contents are private.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pages({} of {} bytes)", self.count(), self.page)
    }
}

impl Pages {
    /// Allocates room for `most` pages of this host.
    #[must_use]
    pub fn with_room(most: usize) -> Self {
        let page = rustix::param::page_size();
        Self { image: Aligned::new_zeroed(most * page), page, len: 0, left_over: 0 }
    }

    /// Adds a page; returns `false`, and adds nothing, if there is no room for it or its length is
    /// not the page size.
    pub fn push(&mut self, page: &[u8]) -> bool {
        let end = self.len + self.page;
        if page.len() != self.page || end > self.image.get().len() {
            return false;
        }
        self.image.get_mut()[self.len..end].copy_from_slice(page);
        self.len = end;
        true
    }

    /// Reads the first pages of a file, at most `most`. The length of an incomplete last page is
    /// [`Pages::unused_bytes`].
    ///
    /// # Errors
    /// If the file cannot be read or has no complete page.
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

    /// Number of pages in the image.
    #[must_use]
    pub fn count(&self) -> usize {
        self.len / self.page
    }

    /// Size of one page in bytes.
    #[must_use]
    pub fn page_size(&self) -> Bytes {
        Bytes::new(self.page as u64)
    }

    /// Contents of the whole image.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.image.get()[..self.len]
    }

    /// Number of bytes of an incomplete page at the end of the file, which were not used.
    #[must_use]
    pub fn unused_bytes(&self) -> u64 {
        self.left_over
    }

    /// The contents at `offset` of a span that may be longer than the image, which is then
    /// repeated.
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
        assert_eq!((pages.count(), pages.unused_bytes()), (2, 5));
        let pages = Pages::read(&mut file.as_slice(), 1).unwrap();
        assert_eq!((pages.count(), pages.unused_bytes()), (1, 0));
        assert!(matches!(Pages::read(&mut &file[..5], 9), Err(Error::NoPages)));
    }

    #[test]
    fn what_is_printed_of_pages_is_not_what_is_in_them() {
        let mut pages = Pages::with_room(1);
        pages.push(&vec![b's'; pages.page]);
        assert!(!format!("{pages:?}").contains("ss"));
    }
}
