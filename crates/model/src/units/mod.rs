// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes, times, shares and names: one type, one parser and one printer for each.

mod compressor;
pub mod duration;
mod grouped;
mod limit;
pub(crate) mod name;
mod quantity;
mod scalars;
mod shell;
mod spelling;
mod task_limit;
pub mod text;
pub mod typed;

pub use compressor::{Compressor, NotACompressor};
pub use grouped::group_digits;
pub use limit::Limit;
pub use name::{Name, make_json_printable, make_printable};
pub use quantity::Quantity;
pub use scalars::{Bytes, Micros, Millis, Nanos, Pages, Percent, Ratio};
pub use shell::quote_for_shell;
pub use spelling::most_similar;
pub use task_limit::TaskLimit;
