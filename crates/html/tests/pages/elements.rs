// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page → its elements, read in the simplest way: what stands between `<` and `>` is a tag.

/// An opening or a closing tag, as it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag<'a>(&'a str);

impl<'a> Tag<'a> {
    pub(crate) fn is_end(self) -> bool {
        self.0.starts_with('/')
    }

    /// As `td`, without attributes.
    pub(crate) fn name(self) -> &'a str {
        let name = self.0.trim_start_matches('/').trim_end_matches('/');
        name.split([' ', '\n']).next().unwrap_or_default()
    }

    pub(crate) fn attribute(self, name: &str) -> Option<&'a str> {
        let (_, rest) = self.0.split_once(&format!(" {name}=\""))?;
        rest.split('"').next()
    }

    /// Elements that have no end.
    fn is_void(self) -> bool {
        self.0.ends_with('/') || matches!(self.name(), "meta" | "br" | "!DOCTYPE")
    }
}

pub(crate) fn tags(page: &str) -> impl Iterator<Item = Tag<'_>> {
    let body = page.split_once("</style>").map_or(page, |(_, body)| body);
    body.split('<').skip(1).map(|piece| {
        let end = piece.find('>').unwrap_or_else(|| panic!("a tag without an end: {piece}"));
        Tag(&piece[..end])
    })
}

/// Panics unless every element ends inside of the one that it begins in.
pub(crate) fn assert_nested(page: &str) {
    // head and html begin before the style sheet
    let mut open = vec!["html", "head"];
    for tag in tags(page).filter(|tag| !tag.is_void()) {
        if tag.is_end() {
            assert_eq!(open.pop(), Some(tag.name()), "inside of {open:?}");
        } else {
            open.push(tag.name());
        }
    }
    assert_eq!(open, [""; 0]);
}

/// Names of elements and of their ends, in order: what text can never change.
pub(crate) fn skeleton(page: &str) -> Vec<(bool, &str)> {
    tags(page).map(|tag| (tag.is_end(), tag.name())).collect()
}
