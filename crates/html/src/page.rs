// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The frame of a self-contained HTML page, and the escaping of text in it.
//!
//! Colours are custom properties of CSS, so that charts and text change together with the reader's
//! colour scheme; prints use the light scheme. Each text colour has a contrast of at least 4.5 to 1
//! with the background, and each colour of an area at least 3 to 1.

const STYLE: &str = include_str!("style.css");

/// The name space attribute, which an SVG file needs but an SVG within an HTML page does not.
const NAME_SPACE: &str = " xmlns=\"http://www.w3.org/2000/svg\"";

/// Returns a complete HTML page; `body` must begin with the first heading.
pub(crate) fn page(title: &str, body: &str) -> String {
    let body = body.replace(NAME_SPACE, "");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
         <main id=\"main\" tabindex=\"-1\">\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// Escapes text, so that it is displayed as text whatever it contains.
pub(crate) fn escape(text: &str) -> String {
    let safe = pagewise_model::Name::from(text);
    let mut shown = String::with_capacity(text.len());
    for letter in safe.as_str().chars() {
        match letter {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            letter => shown.push(letter),
        }
    }
    shown
}

/// Wraps a table so that it can be scrolled horizontally if it is too wide, also with the keyboard.
/// `label` is its name for screen readers.
pub(crate) fn wrap_wide_table(label: &str, table: &str) -> String {
    format!(
        "<div class=\"wide\" role=\"group\" aria-label=\"{}\" tabindex=\"0\">{table}</div>\n",
        escape(label)
    )
}

/// Adds to an SVG a title, and a description for readers who cannot see it.
pub(crate) fn describe_svg(svg: &str, title: &str, description: &str) -> String {
    let (title, description) = (escape(title), escape(description));
    let opening = svg.find("<svg").and_then(|start| Some(start + svg[start..].find('>')? + 1));
    let (head, body) = svg.split_at(opening.unwrap_or(0));
    let head = head.replacen("<svg", "<svg role=\"img\"", 1);
    format!("{head}<title>{title}</title><desc>{description}</desc>{body}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_stays_text() {
        let page = page("a<b>", &escape("</body><script>\"'&\u{1b}"));
        assert!(page.contains("<title>a&lt;b&gt;</title>"), "{page}");
        assert!(page.contains("&lt;/body&gt;&lt;script&gt;&quot;&#39;&amp;\\u{1b}"), "{page}");
        assert_eq!(page.matches("</body>").count(), 1);
    }

    proptest! {
        /// Escaped text cannot end the text or attribute that contains it, and has no control
        /// characters.
        #[test]
        fn no_text_leaves_its_place(text in any::<String>()) {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert!(!escaped.contains(char::is_control));
            let ends = escaped.split('&').skip(1).all(|rest| {
                ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|entity| rest.starts_with(entity))
            });
            prop_assert!(ends, "{escaped}");
        }
    }
}
