// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `200ms`, `1.5s`, `2m`, `3h` → [`Duration`].

use std::time::Duration;

/// The longest that may be asked for: a day.
const LONGEST: f64 = 86_400.0;

/// Reads a time with its unit; `0` needs none.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time as 200ms, 1s, 2m or 3h, found {text:?}");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds: f64 = digits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
    if seconds * factor > LONGEST {
        return Err("at most a day (24h)".to_owned());
    }
    Duration::try_from_secs_f64(seconds * factor).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in
            ["", "1", "s", "-1s", "25h", "1d", "nans", "infs", "1e3s", "1 s", "é", "99999999m", "."]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&format!("{}s", "9".repeat(400))).is_err());
    }
}
