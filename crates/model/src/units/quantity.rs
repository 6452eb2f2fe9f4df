// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The units of values in JSON, and how values are printed for people.

use crate::{
    Algorithms, Bytes, Choice, Limit, Micros, Millis, Name, Nanos, Pages, Percent, Ratio, TaskLimit,
};

/// A type of value that a [`crate::Reading`] may hold.
pub trait Quantity {
    /// The unit printed beside the value in JSON; `None` for counts, names and switches.
    const UNIT: Option<&'static str> = None;

    /// Formats the value with its unit, as printed for people.
    fn shown(&self) -> String;
}

macro_rules! quantity {
    ($type:ty, $unit:expr, $shown:expr) => {
        impl Quantity for $type {
            const UNIT: Option<&'static str> = $unit;

            fn shown(&self) -> String {
                let shown: fn(&$type) -> String = $shown;
                shown(self)
            }
        }
    };
}

quantity!(Bytes, Some("bytes"), ToString::to_string);
quantity!(Pages, Some("pages"), |pages| format!("{} pages", pages.get()));
quantity!(Micros, Some("us"), |us| format!("{} µs", us.get()));
quantity!(Millis, Some("ms"), |ms| format!("{} ms", ms.get()));
quantity!(Nanos, Some("ns"), |ns| format!("{} ns", ns.get()));
quantity!(Percent, Some("percent"), |percent| format!("{:.2} %", percent.get()));
quantity!(Ratio, None, |ratio| format!("{:.2}", ratio.get()));
quantity!(Limit, Some("bytes"), ToString::to_string);
quantity!(TaskLimit, None, ToString::to_string);
quantity!(Name, None, ToString::to_string);
quantity!(Choice, None, ToString::to_string);
quantity!(Algorithms, None, ToString::to_string);
quantity!(bool, None, |on| if *on { "on" } else { "off" }.to_string());
quantity!(u32, None, ToString::to_string);
quantity!(u64, None, ToString::to_string);
quantity!(i32, None, ToString::to_string);
quantity!(i64, None, ToString::to_string);
quantity!(f64, None, ToString::to_string);
quantity!(Vec<Pages>, Some("pages"), |all| join_numbers(all.iter().map(|p| p.get())));
quantity!(Vec<u64>, None, |all| join_numbers(all.iter().copied()));

fn join_numbers(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}
