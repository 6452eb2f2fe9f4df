// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who takes part in a contest: a store, what is in it and what is asked of it.

use pagewise_model::{Bytes, Direction, Shape};

use super::pages::Pages;
use super::store::Store;

/// Something to measure.
pub struct Contestant<'a> {
    /// What it is called.
    pub label: String,
    /// Takes the requests.
    pub store: Box<dyn Store + 'a>,
    /// What is in it already, and is written again: contents never change. Repeated where the span
    /// is longer. Without them it is only read.
    pub pages: Option<&'a Pages>,
    /// Requests stay below this.
    pub span: Bytes,
    /// What is asked of it.
    pub shapes: Vec<Shape>,
}

impl std::fmt::Debug for Contestant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Contestant({}, {})", self.label, self.span)
    }
}

impl Contestant<'_> {
    /// Why it cannot take requests of a shape.
    pub(super) fn refuses(&self, shape: &Shape) -> Option<String> {
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
