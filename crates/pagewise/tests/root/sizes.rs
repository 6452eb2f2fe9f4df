// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our sizes agree with this kernel's zram on every page of eight kinds of memory.

use crate::agreement::{Compared, Said, apart, images};
use crate::example::example;
use crate::machine::{Loans, read, run, write};
use pagewise_pages::codec::Algorithm;
use pagewise_pages::kernel::Kernel;

/// The algorithms of this kernel whose sizes we can compute.
fn offered(id: u32) -> Vec<Algorithm> {
    let all = read(&format!("/sys/block/zram{id}/comp_algorithm")).replace(['[', ']'], "");
    all.split_whitespace().filter_map(|name| name.parse().ok()).collect()
}

#[test]
fn zram_stores_what_scan_says() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut loans = Loans::new();
    let id = loans.zram("64M");
    let tool = example("zram_sizes");
    let images = images();
    for algorithm in offered(id) {
        let mut compared = Compared::default();
        let within = match algorithm {
            Algorithm::Zstd(_) => Some(0.02),
            Algorithm::Lz4hc(_) => Some(0.1),
            _ => None,
        };
        for (name, image) in &images {
            let path = folder.path().join("image");
            std::fs::write(&path, image).unwrap();
            write(&format!("/sys/block/zram{id}/reset"), "1");
            write(&format!("/sys/block/zram{id}/comp_algorithm"), algorithm.name());
            write(&format!("/sys/block/zram{id}/disksize"), "64M");
            let arguments = [&id.to_string(), path.to_str().unwrap(), "3"];
            let message = Said::read(&run(tool.to_str().unwrap(), &arguments));
            let apart = apart(image, Kernel::from_name("7.2").unwrap(), algorithm, &message);
            compared.add(&format!("here | {algorithm} | {name}"), &apart, within);
            for worn in message.worn {
                assert!(
                    worn <= apart.most_worn(name),
                    "{algorithm}, {name}: {worn} after wear, {apart:?}"
                );
            }
        }
        compared.check(&format!("here | {algorithm}"), within);
    }
}
