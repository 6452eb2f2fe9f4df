// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `256M`, `2G` → [`Bytes`].

use pagewise_model::Bytes;

/// Reads a size with its binary unit.
pub(crate) fn parse(text: &str) -> Result<Bytes, String> {
    let wrong = || format!("expected a size as 256M or 2G, found {text:?}");
    let (digits, shift) = match text.chars().last() {
        Some('K') => (&text[..text.len() - 1], 10),
        Some('M') => (&text[..text.len() - 1], 20),
        Some('G') => (&text[..text.len() - 1], 30),
        _ => return Err(wrong()),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
    number.checked_mul(1 << shift).map(Bytes::new).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("512M"), Ok(Bytes::new(512 << 20)));
        assert_eq!(parse("2G"), Ok(Bytes::new(2 << 30)));
        for bad in ["", "M", "512", "-1M", "+1M", "1.5G", "1 M", "99999999999G", "1é", "1m"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
