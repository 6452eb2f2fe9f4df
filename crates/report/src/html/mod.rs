// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that stand alone: no script, nothing fetched, in the colours of whoever looks.

mod page;
mod trial;
mod watched;

pub use trial::trial;
pub use watched::watched;
