// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a page into its elements with a minimal parser: the text between `<` and `>` is a tag.

/// An opening or closing tag, without the brackets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag<'a>(&'a str);

impl<'a> Tag<'a> {
    pub(crate) fn is_end(self) -> bool {
        self.0.starts_with('/')
    }

    /// The name of the element, as `td`, without attributes.
    pub(crate) fn name(self) -> &'a str {
        let name = self.0.trim_start_matches('/').trim_end_matches('/');
        name.split([' ', '\n']).next().unwrap_or_default()
    }

    pub(crate) fn attribute(self, name: &str) -> Option<&'a str> {
        let (_, rest) = self.0.split_once(&format!(" {name}=\""))?;
        rest.split('"').next()
    }

    /// Whether this is an element without a closing tag.
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

/// Panics unless all elements are nested properly.
pub(crate) fn assert_nested(page: &str) {
    // head and html were opened before the style sheet
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

/// Names of all tags in order, with whether they are closing tags; no text may change these.
pub(crate) fn skeleton(page: &str) -> Vec<(bool, &str)> {
    tags(page).map(|tag| (tag.is_end(), tag.name())).collect()
}
