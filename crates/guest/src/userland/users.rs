// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the accounts that packages declare to `/etc/passwd`, `/etc/group` and their shadow files.
//!
//! base-passwd contains the accounts that are the same on all systems; other packages declare their
//! accounts in `sysusers.d`. systemd would create these at every boot of a guest, because each
//! guest starts with the same disk; so they are created once, when the disk is made. If several
//! files declare an account, the first declaration counts. Passwords are locked.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Highest uid for accounts that declare none; the next such account gets the next lower number.
const HIGHEST: u32 = 999;
/// Lowest uid for accounts that declare none: lower numbers are fixed, the same on all systems.
const LOWEST: u32 = 101;

/// Accounts and groups of a system.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// Lines of passwd, by name of the account.
    users: BTreeMap<String, String>,
    /// Gid and additional members of each group.
    groups: BTreeMap<String, (u32, Vec<String>)>,
    taken: Vec<u32>,
}

/// Name below /etc, mode and contents of each file.
pub(super) type Files = [(&'static str, u32, String); 4];

impl Accounts {
    /// Reads the accounts from the passwd and group files of base-passwd.
    pub(super) fn from_masters(passwd: &str, group: &str) -> Self {
        let mut accounts = Self::default();
        for line in group.lines() {
            let mut fields = line.split(':');
            let (name, number) = (fields.next(), fields.nth(1));
            if let (Some(name), Some(Ok(number))) = (name, number.map(str::parse)) {
                accounts.add_group(name, number);
            }
        }
        for line in passwd.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            if let [name, _, number, ..] = fields[..] {
                accounts.taken.extend(number.parse::<u32>());
                let rest = fields[2..].join(":");
                accounts.users.insert(name.to_owned(), format!("{name}:x:{rest}"));
            }
        }
        accounts
    }

    /// Adds the accounts that a file of `sysusers.d` declares. Lines of an unknown type are
    /// ignored.
    pub(super) fn declare(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let words = split_words(line);
            let word = |at: usize| words.get(at).map_or("-", String::as_str);
            match word(0).trim_end_matches('!') {
                "u" => self.add_user(word(1), word(2), word(4), word(5)),
                "g" => {
                    let number = word(2).parse().ok();
                    self.find_or_add_group(word(1), number);
                }
                "m" => self.add_member(word(1), word(2)),
                _ => {}
            }
        }
    }

    fn add_user(&mut self, name: &str, id: &str, home: &str, shell: &str) {
        if !is_name(name) || self.users.contains_key(name) {
            return;
        }
        let (user, group) =
            id.split_once(':').map_or((id, None), |(user, group)| (user, Some(group)));
        let requested: Option<u32> = user.parse().ok();
        let group = match group {
            Some(group) => {
                group.parse().ok().unwrap_or_else(|| self.find_or_add_group(group, None))
            }
            None => self.find_or_add_group(name, requested),
        };
        // An account that declares no uid gets the gid of the group of its name, if that group
        // exists.
        let number = requested.or_else(|| self.gid_of(name)).unwrap_or_else(|| self.free_uid());
        self.taken.push(number);
        let home = if is_path(home) { home } else { "/" };
        let shell = if is_path(shell) { shell } else { "/usr/sbin/nologin" };
        self.users.insert(name.to_owned(), format!("{name}:x:{number}:{group}::{home}:{shell}"));
    }

    fn find_or_add_group(&mut self, name: &str, requested: Option<u32>) -> u32 {
        if let Some((number, _)) = self.groups.get(name) {
            return *number;
        }
        let number = requested.unwrap_or_else(|| self.free_uid());
        if is_name(name) {
            self.add_group(name, number);
        }
        number
    }

    fn add_group(&mut self, name: &str, number: u32) {
        self.taken.push(number);
        self.groups.insert(name.to_owned(), (number, Vec::new()));
    }

    fn add_member(&mut self, user: &str, group: &str) {
        self.find_or_add_group(group, None);
        if let Some((_, members)) = self.groups.get_mut(group).filter(|_| is_name(user)) {
            members.push(user.to_owned());
        }
    }

    fn free_uid(&self) -> u32 {
        let mut numbers = (LOWEST..=HIGHEST).rev();
        numbers.find(|number| !self.taken.contains(number)).unwrap_or(HIGHEST)
    }

    pub(super) fn uid_of(&self, name: &str) -> Option<u32> {
        self.users.get(name)?.split(':').nth(2)?.parse().ok()
    }

    pub(super) fn gid_of(&self, name: &str) -> Option<u32> {
        self.groups.get(name).map(|(number, _)| *number)
    }

    /// The files to write below /etc: name, mode, contents.
    pub(super) fn files(&self) -> Files {
        let (mut passwd, mut shadow) = (String::new(), String::new());
        for (name, line) in &self.users {
            let _ = writeln!(passwd, "{line}");
            let _ = writeln!(shadow, "{name}:*:1::::::");
        }
        let (mut group, mut gshadow) = (String::new(), String::new());
        for (name, (number, members)) in &self.groups {
            let _ = writeln!(group, "{name}:x:{number}:{}", members.join(","));
            let _ = writeln!(gshadow, "{name}:*::{}", members.join(","));
        }
        [
            ("passwd", 0o644, passwd),
            ("group", 0o644, group),
            ("shadow", 0o600, shadow),
            ("gshadow", 0o600, gshadow),
        ]
    }
}

/// Whether a name of an account is safe: other characters could end a line or a field.
fn is_name(name: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    name != "-" && !name.is_empty() && name.bytes().all(fine)
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains([':', '\n'])
}

/// Splits a line of `sysusers.d` into words; words may be in double quotes.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PASSWD: &str = "root::0:0:root:/root:/bin/bash\ndaemon:*:1:1:daemon:/usr/sbin:/x\n";
    const GROUP: &str = "root:*:0:\nadm:*:4:\nshadow:*:42:\n";

    fn file(accounts: &Accounts, requested: &str) -> String {
        accounts.files().into_iter().find(|(name, ..)| *name == requested).unwrap().2
    }

    #[test]
    fn what_is_the_same_everywhere_stays() {
        let accounts = Accounts::from_masters(PASSWD, GROUP);
        let passwd = file(&accounts, "passwd");
        assert!(passwd.contains("root:x:0:0:root:/root:/bin/bash\n"), "{passwd}");
        assert!(file(&accounts, "group").contains("shadow:x:42:\n"));
        assert!(file(&accounts, "shadow").contains("root:*:1::::::\n"));
    }

    #[test]
    fn declared_accounts_get_numbers_of_their_own() {
        let mut accounts = Accounts::from_masters(PASSWD, GROUP);
        accounts.declare(
            "# comment\nu redis - \"Redis, the store\" /var/lib/redis\ng input -\ng kvm 78\n\
             u! net - \"Network\"\nu apt 42:65534 - /nonexistent /bin/false\n\
             u root 77 - /elsewhere\nm redis adm\nr - 500-900\n",
        );
        let (passwd, group) = (file(&accounts, "passwd"), file(&accounts, "group"));
        assert!(passwd.contains("redis:x:999:999::/var/lib/redis:/usr/sbin/nologin\n"), "{passwd}");
        assert!(passwd.contains("apt:x:42:65534::/nonexistent:/bin/false\n"), "{passwd}");
        assert!(passwd.contains("root:x:0:0:"), "{passwd}");
        assert!(group.contains("adm:x:4:redis\n") && group.contains("kvm:x:78:\n"), "{group}");
        assert!(group.contains("input:x:998:\n") && passwd.contains("net:x:997:997:"), "{group}");
    }

    proptest! {
        /// Whatever is declared, every line has the right number of fields, and every name occurs
        /// once.
        #[test]
        fn files_stay_files(text in "([ugmr!]{1,2}[ \t][a-z:\"\\-0-9/ ]{0,20}\n|.{0,20}\n){0,12}") {
            let mut accounts = Accounts::from_masters(PASSWD, GROUP);
            accounts.declare(&text);
            for (name, fields) in [("passwd", 7), ("group", 4), ("shadow", 9), ("gshadow", 4)] {
                let text = file(&accounts, name);
                let mut names: Vec<&str> =
                    text.lines().filter_map(|line| line.split(':').next()).collect();
                for line in text.lines() {
                    prop_assert_eq!(line.split(':').count(), fields, "{}: {}", name, line);
                }
                let all = names.len();
                names.dedup();
                prop_assert_eq!(names.len(), all);
            }
        }
    }
}
