// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/sys/kernel/debug/lru_gen` into [`GroupGenerations`]. Root only, and not a part of the
//! snapshot, because printing the file takes locks of every cgroup.
//!
//! Format: a line `memcg ID PATH`, then for each node a line `node N` and its generations, oldest
//! first, as `NUMBER AGE-IN-MS ANON FILE` in pages. A count may be negative while the kernel
//! updates it.

use pagewise_model::{
    Generation, GroupGenerations, Millis, Name, NodeGenerations, Pages, Reading, Source,
};

use crate::limits::GENERATION_LINES;
use pagewise_hostfs::text::{Line, number, words};
use pagewise_hostfs::{HostRoot, NO_SUCH_FILE, ReadValues, absolute_path, explain};

const PATH: &str = "sys/kernel/debug/lru_gen";

/// Reads the age of the pages of each memory cgroup, by generation of the multi-gen LRU.
pub fn generations(host: &HostRoot) -> Reading<Vec<GroupGenerations>> {
    let source = Source::file(absolute_path(PATH));
    let read = match host.text(PATH) {
        Ok(text) => {
            let mut groups = Vec::new();
            text.first_lines(host, GENERATION_LINES)
                .for_each(|line| take(host, &line, &mut groups));
            Reading::found(groups, source)
        }
        Err(refusal) => refusal.reading(source),
    };
    explain(read, NO_SUCH_FILE, "this kernel has no multi-gen LRU, or debugfs is not mounted")
}

/// The generations of the cgroup with this path and of those below it, from the contents of
/// `lru_gen`. However many cgroups the host has, only these are kept.
pub fn generations_below(contents: &[u8], path: &str) -> Vec<GroupGenerations> {
    let above = path.trim_matches('/');
    let is_meant = |group: &GroupGenerations| {
        let rest = group.path.as_str().trim_matches('/').strip_prefix(above);
        above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let (mut found, mut is_in): (Vec<GroupGenerations>, bool) = (Vec::new(), false);
    for line in contents.split(|byte| *byte == b'\n') {
        match words(line).next() {
            Some(b"memcg") => {
                let group = parse_group(line).filter(is_meant);
                is_in = group.is_some();
                found.extend(group);
            }
            Some(_) if !is_in => {}
            Some(b"node") => {
                found.last_mut().into_iter().for_each(|group| group.nodes.extend(parse_node(line)));
            }
            _ => {
                let into = found.last_mut().and_then(|group| group.nodes.last_mut());
                into.into_iter().for_each(|node| node.generations.extend(parse_generation(line)));
            }
        }
    }
    found
}

fn take(host: &HostRoot, line: &Line<'_>, groups: &mut Vec<GroupGenerations>) {
    let first = words(line.bytes).next();
    let understood = match first {
        None => Some(()),
        Some(b"memcg") => parse_group(line.bytes).map(|group| groups.push(group)),
        Some(b"node") => parse_node(line.bytes)
            .and_then(|node| groups.last_mut().map(|group| group.nodes.push(node))),
        Some(_) => parse_generation(line.bytes).and_then(|generation| {
            groups.last_mut()?.nodes.last_mut().map(|node| node.generations.push(generation))
        }),
    };
    line.check_parsed(host, "a memcg, a node or a generation", understood);
}

/// Parses a `memcg` line of lru_gen. The path may contain spaces; that of the root is `/`.
fn parse_group(line: &[u8]) -> Option<GroupGenerations> {
    let rest = line.trim_ascii().strip_prefix(b"memcg")?.trim_ascii_start();
    let at = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    let (id, path) = rest.split_at(at);
    let id = number(id)?;
    let path = path.trim_ascii_start();
    let path = if path.is_empty() { b"/" } else { path };
    Some(GroupGenerations { id, path: Name::from_bytes(path), nodes: Vec::new() })
}

fn parse_node(line: &[u8]) -> Option<NodeGenerations> {
    let node = words(line).nth(1).and_then(number)?;
    Some(NodeGenerations { node, generations: Vec::new() })
}

fn parse_generation(line: &[u8]) -> Option<Generation> {
    let mut words = words(line);
    let number_of_it = number(words.next()?)?;
    let age = Millis::new(number(words.next()?)?);
    let mut pages = || match words.next()? {
        negative if negative.starts_with(b"-") => Some(Pages::new(0)),
        count => number(count).map(Pages::new),
    };
    Some(Generation { number: number_of_it, age, anon: pages()?, file: pages()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{host, mangle};

    const TEXT: &str = "memcg     1 /\n node     0\n          0     900000       100         200 \n          1     300000        20          30 \nmemcg    39 /job one\n node     0\n          4      12000         7          -0 \n";

    #[test]
    fn groups_have_nodes_and_nodes_have_generations() {
        let groups = generations(&host([(PATH, TEXT)]));
        let groups = groups.value().unwrap();
        assert_eq!(groups.len(), 2);
        let nodes = &groups[0].nodes[0];
        assert_eq!((nodes.generations.len(), groups[1].path.as_str()), (2, "/job one"));
        assert_eq!((groups[1].id, nodes.node, nodes.youngest()), (39, 0, Some(1)));
        let cold = groups[0].cold_anon(Millis::new(300_000));
        assert_eq!((cold.get(), groups[1].nodes[0].generations[0].anon.get()), (100, 7));
    }

    #[test]
    fn a_group_is_found_by_its_path_with_those_below_it() {
        const MORE: &str = "memcg  7 /job\n node 1\n 2 1 1 1\nmemcg  8 /job/a\n node 0\n 5 1 1 1\n 6 1 1 1\nmemcg 9 /jobs\n node 0\n 3 1 1 1\n";
        let found = generations_below(MORE.as_bytes(), "/job");
        let all: Vec<_> = found
            .iter()
            .map(|it| (it.id, it.nodes[0].node, it.nodes[0].youngest().unwrap()))
            .collect();
        assert_eq!(all, [(7, 1, 2), (8, 0, 6)]);
        let spaced = generations_below(TEXT.as_bytes(), "/job one");
        assert_eq!((spaced.len(), spaced[0].id), (1, 39));
        assert_eq!(generations_below(TEXT.as_bytes(), "/job"), []);
    }

    #[test]
    fn without_it_the_reason_is_told() {
        assert!(generations(&host([("x", "")])).value().is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in mangle(TEXT)) {
            generations_below(&bytes, "/job one");
            generations(&host([(PATH, bytes)]));
        }
    }
}
