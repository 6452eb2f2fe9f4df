// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page that stands alone, and text in it.

const STYLE: &str = ":root{color-scheme:light dark;--ink:#1f2328;--quiet:#59636e;--paper:#fefefe;\
--line:#d8dee4;--good:#1a7f37;--bad:#cf222e;--open:#0969da}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--quiet:#9198a1;--paper:#0d1117;\
--line:#30363d;--good:#3fb950;--bad:#f85149;--open:#58a6ff}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);\
max-width:54rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.4rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}\
p{margin:.4rem 0}svg{max-width:100%;height:auto}figure{margin:1rem 0}\
figcaption,.quiet{color:var(--quiet);font-size:.9rem}\
table{border-collapse:collapse;width:100%}th{text-align:left;color:var(--quiet);font-weight:normal}\
td,th{padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line)}\
.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
code{font-size:.95em;overflow-wrap:anywhere}.verdict{font-weight:bold}\
.better{color:var(--good)}.worse{color:var(--bad)}.undecided{color:var(--open)}\
div.wide{overflow-x:auto}";

/// A whole page.
pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

/// Text that stays text, whatever stands in it.
pub(crate) fn escaped(text: &str) -> String {
    let safe = pagewise_model::Name::from(text);
    let mut shown = String::with_capacity(text.len());
    for letter in safe.as_str().chars() {
        match letter {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            letter => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let page = page("a<b>", &escaped("</body><script>\"&\u{1b}"));
        assert!(page.contains("<title>a&lt;b&gt;</title>"), "{page}");
        assert!(page.contains("&lt;/body&gt;&lt;script&gt;&quot;&amp;\\u{1b}"), "{page}");
        assert_eq!(page.matches("</body>").count(), 1);
    }
}
