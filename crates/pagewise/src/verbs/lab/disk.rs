// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the argument of `--disk` (`512M`, `image`, `image,ro`, `image,rw`), which describes a
//! disk of a guest.
//!
//! The file's name may contain commas: only the endings `,ro` and `,rw` are options.

use pagewise_guest::qemu::{Access, Disk};
use pagewise_model::Bytes;

/// Parses the disk of a guest, given as a file or as the size of an empty disk:
/// `FILE[,ro|,rw]|SIZE`.
pub(crate) fn parse(text: &str) -> Result<Disk, String> {
    if let Ok(size) = text.parse::<Bytes>() {
        let empty = || format!("expected an empty disk to have a size, found {text:?}");
        return (size.get() > 0).then_some(Disk::Empty(size)).ok_or_else(empty);
    }
    let (file, access) = match text.rsplit_once(',') {
        Some((file, "ro")) => (file, Access::Read),
        Some((file, "rw")) => (file, Access::Write),
        _ => (text, Access::CopyOnWrite),
    };
    match file {
        "" => Err("expected a file or a size as 512M, found neither".to_owned()),
        _ => Ok(Disk::Image(file.into(), access)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_files_are_told_apart() {
        assert_eq!(parse("1G"), Ok(Disk::Empty(Bytes::new(1 << 30))));
        let image = |path: &str, access| Ok(Disk::Image(path.into(), access));
        assert_eq!(parse("./1G"), image("./1G", Access::CopyOnWrite));
        assert_eq!(parse("a,b"), image("a,b", Access::CopyOnWrite));
        assert_eq!(parse("a,ro"), image("a", Access::Read));
        assert_eq!(parse("a,ro,rw"), image("a,ro", Access::Write));
        assert!(parse("").is_err() && parse(",ro").is_err() && parse("0M").is_err());
    }
}
