// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the sizes of huge pages, smallest first, from the names of folders such as
//! `hugepages-2048kB`.

use pagewise_hostfs::{HostRoot, ReadHost};
use pagewise_model::Bytes;

use crate::limits::HUGE_PAGE_SIZES;
use pagewise_model::text::number;

/// The huge page sizes in a folder, each with the name of its subfolder.
pub(crate) fn list_huge_page_sizes(host: &HostRoot, folder: &str) -> Vec<(Bytes, String)> {
    let mut sizes: Vec<(Bytes, String)> =
        host.names(folder).into_iter().filter_map(parse_size).collect();
    sizes.sort_unstable();
    sizes.truncate(HUGE_PAGE_SIZES);
    sizes
}

fn parse_size(name: String) -> Option<(Bytes, String)> {
    let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    let bytes = Bytes::from_kib(number(kib.as_bytes())?)?;
    Some((bytes, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    #[test]
    fn huge_page_sizes_come_in_order_of_size() {
        let paths = ["t/hugepages-2048kB/x", "t/hugepages-16kB/x", "t/hugepages-xkB/x", "t/defrag"];
        let sizes_of = host(paths.map(|path| (path, "")));
        let sizes: Vec<u64> =
            list_huge_page_sizes(&sizes_of, "t").iter().map(|(size, _)| size.get()).collect();
        assert_eq!(sizes, [16 << 10, 2 << 20]);
        let huge = format!("t/hugepages-{}kB/x", u64::MAX);
        assert!(list_huge_page_sizes(&host([(huge.as_str(), "")]), "t").is_empty());
    }
}
