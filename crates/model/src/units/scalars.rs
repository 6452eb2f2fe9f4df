// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes, counts and times with their unit in the type.
//!
//! Kernel files use KiB, pages, sectors, microseconds or nanoseconds. Values are converted once,
//! where they are read; nothing else in Pagewise multiplies by 1024.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Creates the value from a number that is already in this unit.
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The value as a plain number, in this unit.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Subtracts `other` from this value; the result is zero if `other` is larger.
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Adds the two values; the result is the largest number if the sum overflows.
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = self.saturating_add(other);
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self(0), Self::saturating_add)
            }
        }
    };
}

unit! {
    /// A size in bytes: the only size type that crosses a crate boundary.
    Bytes
}
unit! {
    /// A count of base pages of a host, whose page size is in [`crate::HostSummary::page_size`].
    Pages
}
unit! {
    /// A time in microseconds, the unit of the stall totals in pressure files (PSI).
    Micros
}
unit! {
    /// A time in milliseconds, the unit of most intervals in kernel settings.
    Millis
}
unit! {
    /// A time in nanoseconds, the unit of the kernel's scheduler statistics.
    Nanos
}

impl Bytes {
    /// Converts a number of KiB; `None` if the result does not fit in 64 bits.
    pub const fn from_kib(kib: u64) -> Option<Self> {
        match kib.checked_mul(1024) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }

    /// Returns this size in percent of `whole`; `None` if `whole` is zero.
    pub fn percent_of(self, whole: Self) -> Option<Percent> {
        (whole.0 > 0).then(|| Percent::new(self.0 as f64 * 100.0 / whole.0 as f64))
    }

    /// Formats this size as part of `whole`: `7.9 of 8.0 GiB`. If the units differ, both are
    /// printed.
    pub fn part_of(self, whole: Self) -> String {
        let (part, whole) = (self.to_string(), whole.to_string());
        match (part.split_once(' '), whole.split_once(' ')) {
            (Some((number, one)), Some((_, other))) if one == other => {
                format!("{number} of {whole}")
            }
            (Some(("0", _)), _) => format!("0 of {whole}"),
            _ => format!("{part} of {whole}"),
        }
    }
}

impl fmt::Display for Bytes {
    /// Prints the size in binary units with one decimal: `512 B`, `1.0 KiB`, `47.3 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut scaled = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // 1023.95 would be printed as "1024.0"
        while scaled >= 1023.95 && unit + 1 < UNITS.len() {
            scaled /= 1024.0;
            unit += 1;
        }
        write!(f, "{scaled:.1} {}", UNITS[unit])
    }
}

impl Pages {
    /// Returns the size of this many pages of `page_size` each; the largest size if it overflows.
    pub const fn to_bytes(self, page_size: Bytes) -> Bytes {
        Bytes(self.0.saturating_mul(page_size.0))
    }
}

/// A share in percent, usually 0 to 100 (pressure averages, coverage).
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Percent(f64);

impl Percent {
    /// Creates a share from a number that is already in percent.
    pub const fn new(percent: f64) -> Self {
        Self(percent)
    }

    /// The share as a plain number, in percent.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Returns this percentage of a size, rounded down; 0 if the percentage is negative.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast to an integer saturates"
    )]
    pub fn share_of(self, whole: Bytes) -> Bytes {
        Bytes((whole.0 as f64 * self.0 / 100.0) as u64)
    }

    /// Formats a share of time with two significant digits: `34 %`, `2.1 %`, `0.30 %`. Zero is
    /// printed as `0 %`.
    pub fn format_share_of_time(self) -> String {
        match self.0 {
            0.0 => "0 %".to_owned(),
            much if much >= 9.95 => format!("{much:.0} %"),
            some if some >= 0.995 => format!("{some:.1} %"),
            little => format!("{little:.2} %"),
        }
    }
}

/// The quotient of two sizes. The name of the field or function says which size is divided by
/// which, as in `original_per_compressed`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Ratio(f64);

impl Ratio {
    /// Divides two sizes; `None` if the denominator is zero.
    pub fn from_sizes(numerator: Bytes, denominator: Bytes) -> Option<Self> {
        (denominator.0 > 0).then(|| Self(numerator.0 as f64 / denominator.0 as f64))
    }

    /// The quotient as a plain number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_binary_units_and_never_as_1024_of_one() {
        let shown = |bytes| Bytes::new(bytes).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1024), "1.0 KiB");
        assert_eq!(shown(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(shown(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn a_size_that_does_not_fit_is_none_and_not_wrapped() {
        assert_eq!(Bytes::from_kib(u64::MAX / 1024 + 1), None);
        assert_eq!(Bytes::from_kib(3), Some(Bytes::new(3072)));
    }

    #[test]
    fn a_share_of_a_size_is_the_inverse_of_its_percentage() {
        let (part, whole) = (Bytes::new(3 << 20), Bytes::new(8 << 20));
        assert_eq!(part.percent_of(whole).unwrap().share_of(whole), part);
        assert_eq!(Percent::new(-1.0).share_of(whole), Bytes::new(0));
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        assert_eq!(Bytes::new(1).percent_of(Bytes::new(0)), None);
        assert_eq!(Ratio::from_sizes(Bytes::new(1), Bytes::new(0)), None);
    }
}
