// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades of severity that the verdict and rules, or several rules, share.

pub(crate) mod commit;
pub(crate) mod growth;
pub(crate) mod headroom;
pub(crate) mod pressure;
pub(crate) mod spared;
pub(crate) mod stranded;
