// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads from a kernel image (bzImage) its release, and the uncompressed kernel in it.
//!
//! QEMU boots the uncompressed ELF file directly, which saves the guest the decompression. The
//! image may use one of several compression methods. If the method is not supported here, or the
//! result has no PVH entry point, the image is booted as it is.

use std::io::Read;

use lzma_rust2::XzReader;

use crate::elf;

/// Maximum size of a decompressed kernel or module, in bytes; larger ones are refused.
const LARGEST: u64 = 512 << 20;
/// Signature of the Linux boot protocol in the header of an image.
const MAGIC: &[u8] = b"HdrS";

/// The kernel's release (as `uname -r` prints it) in the image's header.
pub(crate) fn release(image: &[u8]) -> Option<String> {
    is_image(image).then_some(())?;
    let at = usize::try_from(read_number(image, 0x20e, 2)?).ok()? + 0x200;
    let text = image.get(at..at + 128)?;
    let text = text.split(|byte| *byte == 0 || *byte == b' ').next()?;
    std::str::from_utf8(text).ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The kernel in the image, decompressed.
pub(crate) fn unpack_image(image: &[u8]) -> Option<Vec<u8>> {
    let found = unpack(compressed_kernel(image)?)?;
    elf::read(&found).filter(|elf| elf.is_kernel).map(|_| found)
}

/// Reads a little-endian number of at most eight bytes.
fn read_number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn is_image(image: &[u8]) -> bool {
    image.get(0x202..0x206) == Some(MAGIC)
}

/// The compressed kernel in an image. Its offset in the header counts from the end of the setup
/// sectors.
fn compressed_kernel(image: &[u8]) -> Option<&[u8]> {
    is_image(image).then_some(())?;
    let sectors = match read_number(image, 0x1f1, 1)? {
        0 => 4,
        sectors => sectors,
    };
    let start = (sectors + 1) * 512 + read_number(image, 0x248, 4)?;
    let length = usize::try_from(read_number(image, 0x24c, 4)?).ok()?;
    let start = usize::try_from(start).ok()?;
    image.get(start..start.checked_add(length)?)
}

/// Decompresses a kernel; its first bytes (the signature) show the compression method. The
/// uncompressed size, which follows the compressed bytes, is ignored.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    match packed {
        [0x1f, 0x8b, ..] => read_all(flate2::read::GzDecoder::new(packed)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            read_all(zstd::Decoder::with_buffer(packed).ok()?.single_frame())
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => read_all(XzReader::new(packed, false)),
        [0x02, 0x21, 0x4c, 0x18, rest @ ..] => unpack_lz4(rest),
        _ => None,
    }
}

fn read_all(reader: impl Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Decompresses a legacy lz4 frame: blocks of at most 8 MiB (uncompressed), each preceded by its
/// compressed size.
fn unpack_lz4(mut rest: &[u8]) -> Option<Vec<u8>> {
    const BLOCK: usize = 8 << 20;
    let mut bytes = Vec::new();
    while let (Some(size), true) = (read_number(rest, 0, 4), bytes.len() as u64 <= LARGEST) {
        let Some(block) = rest.get(4..).and_then(|rest| rest.get(..usize::try_from(size).ok()?))
        else {
            break;
        };
        bytes.extend(lz4_flex::block::decompress(block, BLOCK).ok()?);
        rest = &rest[4 + block.len()..];
    }
    Some(bytes)
}

/// Decompresses a module file; the extension of its name shows the compression method.
pub(crate) fn unpack_module(name: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
    let packed = bytes.as_slice();
    match name.rsplit('.').next()? {
        "xz" => read_all(XzReader::new(packed, false)),
        "zst" => read_all(zstd::Decoder::with_buffer(packed).ok()?),
        "gz" => read_all(flate2::read::GzDecoder::new(packed)),
        _ => Some(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    /// Makes an image with this payload and a release.
    fn image(packed: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(MAGIC);
        image[0x20f] = 1;
        image[0x24c..0x250].copy_from_slice(&u32::try_from(packed.len()).unwrap().to_le_bytes());
        image[0x300..0x312].copy_from_slice(b"6.1.0-test (someo\0");
        image.extend_from_slice(packed);
        image
    }

    fn kernel() -> Vec<u8> {
        let mut kernel = elf::tests_kernel(20_000_000);
        kernel[19_000_000] = 7;
        kernel
    }

    fn behind_its_size(mut packed: Vec<u8>) -> Vec<u8> {
        packed.extend_from_slice(&20_000_000_u32.to_le_bytes());
        packed
    }

    #[test]
    fn every_method_gives_the_kernel_back() {
        let kernel = kernel();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&kernel).unwrap();
        let mut lz4 = vec![0x02, 0x21, 0x4c, 0x18];
        for block in kernel.chunks(8 << 20) {
            let packed = lz4_flex::block::compress(block);
            lz4.extend_from_slice(&u32::try_from(packed.len()).unwrap().to_le_bytes());
            lz4.extend(packed);
        }
        let zstd = zstd::encode_all(kernel.as_slice(), 1).unwrap();
        for packed in [gzip.finish().unwrap(), lz4, zstd, xz(&kernel)] {
            let image = image(&behind_its_size(packed));
            assert_eq!(release(&image).as_deref(), Some("6.1.0-test"));
            assert!(unpack_image(&image) == Some(kernel.clone()));
        }
    }

    /// Compresses in the same way as the kernel's build: with the BCJ filter for x86, which makes
    /// jump targets compress better.
    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut options = lzma_rust2::XzOptions::with_preset(0);
        options.set_check_sum_type(lzma_rust2::CheckType::Crc32);
        options.prepend_pre_filter(lzma_rust2::FilterType::BcjX86, 0);
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        xz.write_all(bytes).unwrap();
        xz.finish().unwrap()
    }

    #[test]
    fn modules_are_unpacked_whichever_way_they_are_packed() {
        let module = b"\x7fELF module".repeat(1000);
        assert_eq!(self::unpack_module("a.ko.xz", xz(&module)).as_ref(), Some(&module));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&module).unwrap();
        assert_eq!(self::unpack_module("a.ko.gz", gzip.finish().unwrap()).as_ref(), Some(&module));
        let zstd = zstd::encode_all(module.as_slice(), 1).unwrap();
        assert_eq!(self::unpack_module("a.ko.zst", zstd).as_ref(), Some(&module));
        assert_eq!(self::unpack_module("a.ko", module.clone()).as_ref(), Some(&module));
        let mut cut = xz(&module);
        cut.truncate(cut.len() / 2);
        assert_eq!(self::unpack_module("a.ko.xz", cut), None);
    }

    #[test]
    fn a_method_that_we_have_not_is_left_packed() {
        assert_eq!(unpack_image(&image(b"BZh91AY&SY")), None);
        assert_eq!(unpack_image(b"no image"), None);
        let other = zstd::encode_all(&b"\x7fELF\x02\x01 and no entry"[..], 1).unwrap();
        assert_eq!(unpack_image(&image(&behind_its_size(other))), None);
    }

    proptest! {
        /// Random bytes in the header or the payload are refused and never cause a panic.
        #[test]
        fn noise_does_no_harm(packed: Vec<u8>, at in 0usize..0x400, byte: u8) {
            let xz = b"\xfd7zXZ\0";
            for magic in [&[0x1f, 0x8b][..], &[0x28, 0xb5, 0x2f, 0xfd], &[2, 0x21, 0x4c, 0x18], xz] {
                let mut image = image(&[magic, &packed].concat());
                image[at] = byte;
                let _ = (unpack_image(&image), release(&image));
            }
        }
    }
}
