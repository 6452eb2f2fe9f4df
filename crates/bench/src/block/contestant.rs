// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A contestant: a store, its contents, and the requests to measure.

use pagewise_model::{Bytes, Direction, Shape};

use super::pages::Pages;
use super::store::Store;

/// A store with its contents, and the requests to measure on it.
pub struct Contestant<'a> {
    /// Name of the contestant, as shown in progress and reports.
    pub label: String,
    /// The store that receives the requests.
    pub store: Box<dyn Store + 'a>,
    /// The contents of the store; writes write them back unchanged. If the span is longer, the
    /// contents are repeated. `None`: the store is only read.
    pub pages: Option<&'a Pages>,
    /// Size in bytes of the first part of the store: requests stay within that part.
    pub span: Bytes,
    /// The shapes of requests to measure.
    pub shapes: Vec<Shape>,
}

impl std::fmt::Debug for Contestant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Contestant({}, {})", self.label, self.span)
    }
}

impl Contestant<'_> {
    /// Why this contestant cannot take requests of this shape; `None` if it can.
    pub(super) fn why_refused(&self, shape: &Shape) -> Option<String> {
        let block = shape.block_bytes;
        let fits = |pages: &Pages| {
            let length = pages.bytes().len() as u64;
            length > 0 && (self.span.get() <= length || length % block.get() == 0)
        };
        match (shape.direction, self.pages) {
            _ if block.get() == 0 || shape.jobs == 0 => Some("nothing is asked of it".to_owned()),
            _ if self.span.get() < block.get() => {
                Some(format!("{} of pages are too few for blocks of {block}", self.span))
            }
            (Direction::Write, None) => Some("it is only read".to_owned()),
            (Direction::Write, Some(pages)) if !fits(pages) => {
                Some(format!("its pages repeat, and are no multiple of {block}"))
            }
            _ => None,
        }
    }
}
