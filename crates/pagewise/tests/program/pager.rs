// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `report` on a pseudo-terminal: in the pager that the environment names, or the first screen alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::program::run;
use crate::watch::Terminal;

const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/hosts/debian-trixie-6.12-x86_64-256m-oom-zram-full.tar"
);
const SIZE: (u16, u16) = (80, 24);

fn report(pager: &str, more: &[&str]) -> Terminal {
    let arguments = [&["report", "--root", RECORDING], more].concat();
    let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
    Terminal::start_verb(SIZE, &[("PAGER", pager), ("NO_COLOR", "1")], &arguments)
}

/// A pager that stores what it is given, and then waits for a key.
fn script(folder: &Path) -> String {
    let path = folder.join("pager");
    let text = format!(
        "#!/bin/sh\ncat > '{0}/text'\nenv > '{0}/environment'\ntrap 'echo interrupted' INT\n\
         echo 'press a key'\nread key < /dev/tty\necho \"paged $key\"\n",
        folder.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_pager_gets_the_whole_report_and_the_keys() {
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = report(&script(folder.path()), &[]);
    terminal.wait_for("press a key");
    terminal.press("x\r");
    let (status, screen) = terminal.end_of_program();
    assert_eq!(status.code(), Some(0));
    assert!(screen.contains("paged x") && !screen.contains("pagewise report"), "{screen}");
    let text = std::fs::read_to_string(folder.path().join("text")).unwrap();
    assert!(text.starts_with("pagewise report · ") && text.contains("below: all sections"));
    assert!(text.contains("\n  Zones") && text.contains("\n  This look cost "), "{text}");
    let environment = std::fs::read_to_string(folder.path().join("environment")).unwrap();
    assert!(environment.contains("LESSSECURE=1") && environment.contains("LESS=FRX"));
}

#[test]
fn without_a_pager_the_first_screen_stands_alone() {
    for (pager, more) in
        [("", vec![]), ("cat", vec![]), ("/nowhere/less", vec![]), ("less", vec!["--no-pager"])]
    {
        let (status, screen) = report(pager, &more).end_of_program();
        assert_eq!(status.code(), Some(0), "{screen}");
        assert!(screen.contains("pagewise report · host-"), "all of it fits: {screen}");
        assert!(screen.contains("pagewise report --all: all sections"), "{screen}");
        assert!(!screen.contains("This look cost"), "{screen}");
    }
}

/// `--all` and a pipe have every section; an error is printed without a pager.
#[test]
fn all_and_a_pipe_have_every_section() {
    let (_, screen) = report("/nowhere/less", &["--all"]).end_of_program();
    assert!(screen.contains("This look cost"), "{screen}");
    let piped = run(&["report", "--root", RECORDING]);
    assert!(piped.out.contains("below: all sections") && piped.out.contains("This look cost"));
    let arguments = ["report", "--root", "/nowhere"].map(AsRef::as_ref);
    let (status, screen) =
        Terminal::start_verb(SIZE, &[("PAGER", "false")], &arguments).end_of_program();
    assert_eq!(status.code(), Some(1));
    assert!(screen.contains("pagewise: /nowhere"), "{screen}");
}
