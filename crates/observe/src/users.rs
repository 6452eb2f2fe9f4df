// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads user names from a host's `/etc/passwd`: `name:password:uid:…`.
//!
//! Users from other sources (LDAP, dynamic users of systemd) are not in it and only have numbers.
//! Captures contain no user names: this file is never recorded.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::Name;

use pagewise_hostfs::text::{lines, number};
use pagewise_hostfs::{HostRoot, ReadHost};

/// The names of these users, if the file contains them; of several lines with one id the first
/// counts.
pub fn user_names(host: &HostRoot, wanted: &BTreeSet<u32>) -> BTreeMap<u32, Name> {
    let mut names = BTreeMap::new();
    let text = host.bytes("etc/passwd").unwrap_or_default();
    for (uid, name) in lines(&text).filter_map(user) {
        if wanted.contains(&uid) {
            names.entry(uid).or_insert_with(|| Name::from_bytes(name));
        }
    }
    names
}

fn user(line: &[u8]) -> Option<(u32, &[u8])> {
    let mut fields = line.split(|&byte| byte == b':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    Some((number(fields.nth(1)?)?, name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle};

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n# comment\nalso-root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\n:x:7:7::/:\n+::::::\n";

    #[test]
    fn wanted_users_have_the_name_of_their_first_line() {
        let host = host([("etc/passwd", PASSWD)]);
        let names = user_names(&host, &BTreeSet::from([0, 7, 33, 1000]));
        let names: Vec<_> = names.iter().map(|(uid, name)| (*uid, name.as_str())).collect();
        assert_eq!(names, [(0, "root"), (33, "www-data")]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in mangle(PASSWD)) {
            let _ = user_names(&host([("etc/passwd", text)]), &BTreeSet::from([0, 33]));
        }
    }
}
