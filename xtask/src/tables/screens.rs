// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws what the program prints about a recording as a picture of a terminal, `docs/pictures/hosts/*.svg`.
//!
//! The pictures are made from the recordings of `fixtures/hosts`, so they show what the program prints
//! today. They contain colours for light and for dark pages; the reader's browser chooses.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::run;

/// The folder of the pictures, relative to the project.
const PLACE: &str = "docs/pictures/hosts";

struct Screen {
    /// The name of the picture, without its ending.
    name: &'static str,
    /// The command that is printed at the top of the picture.
    shown: &'static str,
    verb: &'static [&'static str],
    recording: &'static str,
    /// The output from the line on that begins with this word is left out.
    end: Option<&'static str>,
    /// Whether the command is the live view, which needs a terminal.
    is_live: bool,
}

const SCREENS: [Screen; 3] = [
    Screen {
        name: "report",
        shown: "pagewise report",
        verb: &["report"],
        recording: "fixtures/hosts/debian-trixie-6.12-x86_64-256m-oom-limit.tar",
        end: Some("more"),
        is_live: false,
    },
    Screen {
        name: "status",
        shown: "pagewise status",
        verb: &["status"],
        recording: "fixtures/hosts/debian-bookworm-6.1-x86_64-512m-zram-pressure.tar",
        end: None,
        is_live: false,
    },
    Screen {
        name: "top",
        shown: "pagewise top",
        verb: &["top"],
        recording: "fixtures/hosts/debian-bookworm-6.1-x86_64-512m-zram-pressure.tar",
        end: None,
        is_live: true,
    },
];

/// Draws all pictures; with `check`, changes nothing and returns the paths of those that differ.
pub(super) fn draw(program: &Path, check: bool) -> Result<Vec<String>> {
    let mut differing = Vec::new();
    for screen in &SCREENS {
        let path = format!("{PLACE}/{}.svg", screen.name);
        let picture = draw_screen(program, screen).with_context(|| path.clone())?;
        let file = run::project().join(&path);
        if fs::read_to_string(&file).is_ok_and(|old| old == picture) {
            continue;
        }
        if !check {
            fs::create_dir_all(run::project().join(PLACE))?;
            fs::write(&file, &picture).with_context(|| path.clone())?;
        }
        differing.push(path);
    }
    Ok(differing)
}

pub(super) const COUNT: usize = SCREENS.len();

fn draw_screen(program: &Path, screen: &Screen) -> Result<String> {
    let printed =
        if screen.is_live { run_live_view(program, screen)? } else { run_verb(program, screen)? };
    let mut lines = vec![vec![Span { style: "dim", text: format!("$ {}", screen.shown) }]];
    for line in printed {
        let text = text_of(&line);
        let word = text.split_whitespace().next().unwrap_or_default();
        if Some(word) == screen.end {
            break;
        }
        // the word "took" differs from run to run, and "recording" names the recording instead of
        // the machine
        if !["took", "recording"].contains(&word) {
            lines.push(line);
        }
    }
    while lines.last().is_some_and(|line| text_of(line).trim().is_empty()) {
        lines.pop();
    }
    ensure!(lines.len() > 10, "expected a screen of text, found {} lines", lines.len());
    Ok(draw_lines(screen.shown, &lines))
}

/// What a verb prints, with its colours.
fn run_verb(program: &Path, screen: &Screen) -> Result<Vec<Vec<Span>>> {
    let mut command = run::program(program);
    command.args(screen.verb).args(["--root", screen.recording]);
    let printed = run::output(command.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR"))?;
    Ok(printed.lines().map(parse_spans).collect())
}

/// Numbers of rows and columns of the terminal in which the live view runs.
const ROWS: u16 = 24;
const COLUMNS: u16 = 100;
/// The last text of each frame of the live view.
const KEYS: &[u8] = b"q quit";
/// What the live view prints when it ends: a switch back to the terminal's normal screen.
const LEFT: &[u8] = b"\x1b[?1049l";

/// Runs the live view and returns its screen. `script` gives it a terminal, and `timeout` ends it
/// if it hangs.
fn run_live_view(program: &Path, screen: &Screen) -> Result<Vec<Vec<Span>>> {
    let verb = screen.verb.join(" ");
    let program = program.canonicalize().with_context(|| program.display().to_string())?;
    let inside = format!(
        "stty rows {ROWS} cols {COLUMNS}; exec {} {verb} --root {}",
        program.display(),
        screen.recording
    );
    let mut command = run::program("timeout");
    command.args([
        "60",
        "script",
        "--quiet",
        "--flush",
        "--return",
        "--command",
        &inside,
        "/dev/null",
    ]);
    command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut keys, mut output) =
        (child.stdin.take().context("its input")?, child.stdout.take().context("its output")?);
    let (mut printed, mut piece, mut is_asked) = (Vec::new(), [0; 4096], false);
    loop {
        let count = output.read(&mut piece)?;
        if count == 0 {
            break;
        }
        printed.extend_from_slice(&piece[..count]);
        if !is_asked && position_of(&printed, KEYS).is_some() {
            keys.write_all(b"q")?;
            is_asked = true;
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{inside}: {status}");
    let end =
        position_of(&printed, LEFT).with_context(|| format!("{inside}: it showed no screen"))?;
    let mut terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
    terminal.process(&printed[..end]);
    Ok((0..ROWS).map(|row| spans_of_row(terminal.screen(), row)).collect())
}

fn position_of(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// A row of a terminal, as spans of one style.
fn spans_of_row(screen: &vt100::Screen, row: u16) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for cell in (0..COLUMNS).filter_map(|column| screen.cell(row, column)) {
        let style = match (cell.fgcolor(), cell.bold()) {
            (vt100::Color::Idx(1), true) => "bold red",
            (vt100::Color::Idx(1), false) => "red",
            (vt100::Color::Idx(2), _) => "green",
            (vt100::Color::Idx(3), _) => "yellow",
            (vt100::Color::Idx(4), _) => "blue",
            (vt100::Color::Idx(5), _) => "magenta",
            (vt100::Color::Idx(6), _) => "cyan",
            (_, true) => "bold",
            _ => "",
        };
        let contents = cell.contents();
        let text = if contents.is_empty() { " " } else { contents.as_str() };
        match spans.last_mut().filter(|span| span.style == style) {
            Some(span) => span.text.push_str(text),
            None => spans.push(Span { style, text: text.to_owned() }),
        }
    }
    spans
}

/// Text in one style.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    /// The classes of the picture's style sheet.
    style: &'static str,
    text: String,
}

fn text_of(line: &[Span]) -> String {
    line.iter().map(|span| span.text.as_str()).collect()
}

/// The parts of a line that was printed with ANSI colours (SGR sequences).
fn parse_spans(line: &str) -> Vec<Span> {
    let (mut spans, mut style) = (Vec::new(), "");
    for (index, part) in line.split("\x1b[").enumerate() {
        let (code, text) = match part.split_once('m') {
            Some((code, text)) if index > 0 => (code, text),
            _ => ("", part),
        };
        style = match (code, style) {
            ("", kept) => kept,
            ("1", _) => "bold",
            ("2", _) => "dim",
            ("31", "bold") => "bold red",
            ("33", "bold") => "bold yellow",
            ("34", "bold") => "bold blue",
            ("31", _) => "red",
            ("32", _) => "green",
            ("33", _) => "yellow",
            ("34", _) => "blue",
            ("35", _) => "magenta",
            ("36", _) => "cyan",
            _ => "",
        };
        if !text.is_empty() {
            spans.push(Span { style, text: text.to_owned() });
        }
    }
    spans
}

/// Width of a column and height of a row in tenths of a pixel, for letters of 14 pixels.
const COLUMN: usize = 84;
const ROW: usize = 190;
const MARGIN: usize = 160;

const STYLE: &str = "text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#24292f;white-space:pre}\
    rect{fill:#f6f8fa;stroke:#d0d7de}.bold{font-weight:700}.dim{fill:#6e7781}.red{fill:#cf222e}\
    .yellow{fill:#9a6700}.green{fill:#116329}.blue{fill:#0969da}.cyan{fill:#1b7c83}.magenta{fill:#8250df}\
    @media (prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#0d1117;stroke:#30363d}.dim{fill:#8b949e}\
    .red{fill:#ff7b72}.yellow{fill:#d29922}.green{fill:#3fb950}.blue{fill:#79c0ff}.cyan{fill:#56d4dd}.magenta{fill:#d2a8ff}}";

fn draw_lines(title: &str, lines: &[Vec<Span>]) -> String {
    let columns =
        lines.iter().map(|line| text_of(line).trim_end().chars().count()).max().unwrap_or_default();
    let (width, height) = (2 * MARGIN + columns * COLUMN, 2 * MARGIN + lines.len() * ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{2}\" height=\"{3}\" rx=\"6\"/>\n",
        format_pixels(width),
        format_pixels(height),
        format_pixels(width - 10),
        format_pixels(height - 10),
    );
    for (row, line) in lines.iter().enumerate() {
        let y = format_pixels(MARGIN + row * ROW + 140);
        let mut column = 0;
        for Span { style, text } in line {
            for (begin, part) in split_at_spaces(text) {
                let length = format_pixels(part.chars().count() * COLUMN);
                let x = format_pixels(MARGIN + (column + begin) * COLUMN);
                let class =
                    if style.is_empty() { String::new() } else { format!(" class=\"{style}\"") };
                // this attribute keeps columns aligned, whichever font the reader has
                let _ = writeln!(
                    svg,
                    "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" \
                     lengthAdjust=\"spacingAndGlyphs\"{class}>{}</text>",
                    escape(part)
                );
            }
            column += text.chars().count();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The parts of a text that are separated by two or more spaces, with the column at which each
/// begins. They are drawn one by one, because most programs that show pictures reduce several
/// spaces to one.
fn split_at_spaces(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut column = 0;
    for part in text.split("  ") {
        let trimmed = part.trim();
        if !trimmed.is_empty() {
            let spaces = part.chars().take_while(|letter| letter.is_whitespace()).count();
            parts.push((column + spaces, trimmed));
        }
        column += part.chars().count() + 2;
    }
    parts
}

/// A number of tenths as a decimal number.
fn format_pixels(tenths: usize) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes() {
        let found = parse_spans("\x1b[1m\x1b[31mCRITICAL\x1b[0m  a \x1b[2mb\x1b[0m");
        let expected = [("bold red", "CRITICAL"), ("", "  a "), ("dim", "b")];
        let expected = expected.map(|(style, text)| Span { style, text: text.to_owned() });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_picture_escapes_its_text_and_keeps_columns() {
        let svg = draw_lines("t", &[parse_spans("ab <c>"), parse_spans("\x1b[36m  d  \x1b[0m")]);
        assert!(svg.contains(">ab &lt;c&gt;</text>") && svg.contains("class=\"cyan\">d</text>"));
        assert!(svg.contains("x=\"32.8\" y=\"49.0\" textLength=\"8.4\""), "{svg}");
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert_eq!(split_at_spaces("  a b   c    d "), [(2, "a b"), (8, "c"), (13, "d")]);
    }
}
