// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our sizes agree with zram of 6.1, 6.12 and 7.2 on eight kinds of memory.

use std::collections::BTreeMap;

use crate::agreement::{Compared, Said, apart, images};
use crate::example::into_guest;
use pagewise_pages::codec::Algorithm;
use pagewise_pages::kernel::Kernel;

const SUITES: [(&str, &str); 3] = [("bookworm", "6.1"), ("trixie", "6.12"), ("sid", "7.2")];

/// Stores each image with each algorithm; each result is a file. With lz4, the
/// fastest, pages are overwritten three times: fragmentation of the pool depends on sizes alone.
const SCRIPT: &str = r"
    for algorithm in $(tr -d '[]' < /sys/block/zram0/comp_algorithm); do
        [ $algorithm = 842 ] && continue
        rounds=0
        [ $algorithm = lz4 ] && rounds=3
        for image in /images/*; do
            echo 1 > /sys/block/zram0/reset
            echo $algorithm > /sys/block/zram0/comp_algorithm
            echo 64M > /sys/block/zram0/disksize
            /zram_sizes 0 $image $rounds > /out/$algorithm.${image##*/} || exit
        done
    done";

/// The maximum deviation of the total in percent; `None` if every page must be equal.
fn promised(kernel: &str, algorithm: Algorithm) -> Option<f64> {
    match (algorithm, kernel) {
        (Algorithm::Lz4hc(_), _) => Some(0.1),
        (Algorithm::Zstd(_), "6.1") => Some(0.2),
        (Algorithm::Zstd(_), _) => Some(0.03),
        _ => None,
    }
}

#[test]
fn guest_zram_of_every_suite_stores_what_scan_says() {
    let images = images();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (suite, kernel) in SUITES {
        let out = folder.path().join(suite);
        let mut options = vec!["--kernel".to_owned(), suite.to_owned()];
        options.extend(into_guest("zram_sizes"));
        options.extend(["--out".to_owned(), out.display().to_string()]);
        options.extend(["--memory", "768M", "--deadline", "5m"].map(str::to_owned));
        for (name, image) in &images {
            let name = name.replace(' ', "-");
            let path = folder.path().join(&name);
            std::fs::write(&path, image).unwrap();
            options.extend(["--file".to_owned(), format!("{}:/images/{name}", path.display())]);
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let ran = crate::boot::script(&options, SCRIPT);
        assert_eq!(ran.status, 0, "{suite}: {}", ran.err);
        let mut compared: BTreeMap<Algorithm, Compared> = BTreeMap::new();
        let mut worn = 0;
        for entry in std::fs::read_dir(&out).unwrap().flatten() {
            let file = entry.file_name().into_string().unwrap();
            let (algorithm, name) = file.split_once('.').unwrap();
            let algorithm: Algorithm = algorithm.parse().unwrap();
            let message = Said::read(&std::fs::read_to_string(entry.path()).unwrap());
            let is_named = |image: &&(&str, Vec<u8>)| image.0.replace(' ', "-") == name;
            let (image_name, image) = images.iter().find(is_named).unwrap();
            let apart = apart(image, Kernel::from_name(kernel).unwrap(), algorithm, &message);
            let what = format!("{kernel} | {algorithm} | {name}");
            let compared = compared.entry(algorithm).or_default();
            worn += message.worn.len();
            for used in &message.worn {
                assert!(
                    *used <= apart.most_worn(image_name),
                    "{what}: {used} after wear, {apart:?}"
                );
            }
            compared.add(&what, &apart, promised(kernel, algorithm));
        }
        assert_eq!(worn, 3 * images.len(), "{suite}");
        for (algorithm, compared) in compared {
            compared.check(&format!("{kernel} | {algorithm}"), promised(kernel, algorithm));
        }
    }
}
