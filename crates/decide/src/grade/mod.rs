// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts → how bad they are, where the verdict and rules, or several rules, need the same grade.

pub(crate) mod commit;
pub(crate) mod growth;
pub(crate) mod headroom;
pub(crate) mod pressure;
pub(crate) mod spared;
