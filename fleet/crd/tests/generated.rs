// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file with the definitions is what the types say. `BLESS=1` rewrites it.

use std::path::Path;

#[test]
fn the_file_of_the_definitions_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base/crds.yaml");
    let expected = fleet_crd::definitions_as_yaml().unwrap();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} differs: cargo xtask fleet --bless", path.display());
}
